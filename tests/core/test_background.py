"""Requests that clients make for themselves, as real clients spell them, and others that look a little like them."""

import pytest

from tests.each import each
from tieline.core.legs.background import is_background
from tieline.model.content import Message, Text
from tieline.model.request import OutputFormat, Request, Sampling, ToolChoice

BACKGROUND = {
    "OpenCode, Kilo: title": ("You are a title generator. You output ONLY a thread title.", '"say hi"'),
    "OpenCode: title, by the user message": ("", "Generate a title for this conversation:\n"),
    "Claude Code: topic": ("Analyze if this message indicates a new conversation topic.", "hello"),
    "Claude Code: title": ("Generate a concise, sentence-case title (3-7 words) for this coding session.", "hello"),
    "Claude Code: summary of a session": ("Summarize this coding conversation in under 50 characters.", "hello"),
    "Claude Code: compaction": ("", "Your task is to create a detailed summary of the conversation so far."),
    "Codex: compaction": (
        "You are Codex.",
        "You are performing a CONTEXT CHECKPOINT COMPACTION. Create a handoff summary for another LLM.",
    ),
    "a compaction that the gateway makes": (
        "",
        "Summarise this conversation so that it can be continued from your summary alone.",
    ),
    "Qwen Code: title": ("", "Generate the session title now. Populate the schema."),
    "Qwen Code, Gemini CLI: who speaks next": (
        "",
        "Analyze *only* the content and structure of your immediately preceding response.",
    ),
    "Qwen Code, Gemini CLI: compression": ("You are the component that summarizes internal chat history.", "go"),
    "Goose: name": ("You are an assistant that crafts a concise session title.", "hello"),
    "Crush: title": ("you will generate a short title based on the first message a user begins with", "hello"),
    "Open WebUI: title": ("", "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat."),
    "Open WebUI: tags": ("", "### Task:\nGenerate 1-3 broad tags categorizing the main themes."),
    "Open WebUI: follow-ups": ("", "### Task:\nSuggest 3-5 relevant follow-up questions or prompts."),
    "LibreChat: title": ("", "Provide a concise, 5-word-or-less title for the conversation."),
    "Zed: title": ("", "long history\n\nGenerate a concise 3-7 word title for this conversation."),
    "Copilot: title": ("You are an expert in crafting pithy titles for chatbot conversations.", "hello"),
    "aider: commit message": ("You write concise, one-line Git commit messages.", "diff"),
}
ORDINARY = {
    "no system prompt": ("", "Fix the failing test."),
    "a plain assistant": ("You are a helpful assistant. Answer briefly.", "What is in this folder?"),
    "a blog post": ("You are a helpful assistant.", "Generate a title for my blog post about cats."),
    "a file to summarise": ("You are a helpful assistant.", "Summarize README.md."),
    "a web page with a title": ("You are a helpful assistant.", "Change the title of index.html to Home."),
    "a module called chat": ("You are a helpful assistant.", "Write a summary of the chat module in docs/chat.md."),
    "a table of messages": ("You are a helpful assistant.", "Create tags for the message table."),
    "a chat application": ("You are a helpful assistant.", "Write a chat application with sessions."),
    "a long prompt that speaks of titles much later": (f"You are an agent. {'x' * 2000} generate a title.", "go"),
}


def request(system: str, words: str, **more: object) -> Request:
    messages = [Message(role="user", parts=(Text(text=words),))]
    if system:
        messages.insert(0, Message(role="system", parts=(Text(text=system),)))
    return Request(model="m", messages=tuple(messages), **more)  # type: ignore[arg-type] # fields of a request


@each(("system", "words"), BACKGROUND.values(), ids=BACKGROUND)
def test_what_clients_ask_for_themselves_is_recognised(system: str, words: str) -> None:
    assert is_background(request(system, words))


@pytest.mark.parametrize(("system", "words"), ORDINARY.values(), ids=ORDINARY)
def test_what_a_person_asks_is_not_taken_for_it(system: str, words: str) -> None:
    assert not is_background(request(system, words))


def test_an_earlier_message_about_the_title_does_not_count() -> None:
    title = Message(role="user", parts=(Text(text="Generate a title for this conversation:"),))
    later = Message(role="user", parts=(Text(text="Now fix the test."),))
    assert not is_background(Request(model="m", messages=(title, later)))


@pytest.mark.parametrize(
    "more",
    [
        {"sampling": Sampling(max_tokens=1)},
        {"output": OutputFormat()},
        {"tool_choice": ToolChoice(mode="none", given=True)},
    ],
)
def test_an_answer_that_is_tiny_or_of_a_form_or_without_tools_is_not_work_with_tools(more: dict[str, object]) -> None:
    assert is_background(request("", "quota", **more))
    assert not is_background(request("", "quota", sampling=Sampling(max_tokens=4096)))
