"""Settings for libraries: a short program for each."""

import json

from tieline.clients.client import ANY_KEY, Connection
from tieline.clients.shell import quoted
from tieline.clients.snippet import Snippet

_OPENAI = """\
from openai import OpenAI

client = OpenAI(base_url={api}, api_key={key})
reply = client.chat.completions.create(model={model}, messages=[{{"role": "user", "content": "say hello"}}])
print(reply.choices[0].message.content)"""

_ANTHROPIC = """\
from anthropic import Anthropic

client = Anthropic(base_url={url}, api_key={key})
reply = client.messages.create(
    model={model}, max_tokens=1000, messages=[{{"role": "user", "content": "say hello"}}]
)
print(reply.content[0].text)"""

_VERCEL = """\
import {{ createOpenAICompatible }} from '@ai-sdk/openai-compatible';

const model = createOpenAICompatible({{
  name: 'tieline', baseURL: {api}, apiKey: {key},
  includeUsage: true, supportsStructuredOutputs: true,
}})({model});"""

_LANGCHAIN = """\
from langchain_openai import ChatOpenAI

model = ChatOpenAI(base_url={api}, api_key={key}, model={model})"""

_PYDANTIC = """\
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

model = OpenAIChatModel({model}, provider=OpenAIProvider(base_url={api}, api_key={key}))"""


def libraries(connection: Connection) -> list[Snippet]:
    """Return a program for each library, and a request for curl."""
    words = {"url": connection.url, "api": connection.api, "key": connection.key, "model": connection.model}
    # A JSON string is also a string literal in Python and JavaScript.
    literals = {name: json.dumps(word) for name, word in words.items()}

    def program(id: str, title: str, about: str, text: str, language: str = "python") -> Snippet:  # noqa: A002 - the name of the field
        return Snippet(id=id, title=title, about=about, text=text.format(**literals), language=language)

    return [
        program("openai-python", "OpenAI SDK", "Python. Other languages use the same two settings.", _OPENAI),
        program("anthropic-python", "Anthropic SDK", "Python. The address has no /v1 at the end.", _ANTHROPIC),
        program("vercel-ai", "Vercel AI SDK", "JavaScript.", _VERCEL, "js"),
        program("langchain", "LangChain", "Python.", _LANGCHAIN),
        program("pydantic-ai", "Pydantic AI", "Python.", _PYDANTIC),
        Snippet(id="curl", title="curl", about="A quick test.", text=_curl(connection)),
    ]


def _curl(connection: Connection) -> str:
    body = json.dumps({"model": connection.model, "messages": [{"role": "user", "content": "What can you do?"}]})
    key = connection.key
    sent = "" if key == ANY_KEY else f" \\\n  -H {quoted(f'authorization: Bearer {key}')}"
    url = f"{connection.api}/chat/completions"
    return f"curl {quoted(url)} -H 'content-type: application/json'{sent} \\\n  -d {quoted(body)}"
