"""Inbox items that wait for a person: approvals, plan reviews and questions.

The types of items and answers are in `model.inbox`, the HTTP endpoints in `frontends`, and the commands in `cli`.
"""
