"""The web page's conversations: sessions, branches and drafts."""
