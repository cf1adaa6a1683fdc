"""The paths of the page, in one table, to be added to those of the frontends."""

from tieline.frontends.http import Route, Routes
from tieline.web.api import Api, render_error
from tieline.web.pages import PAGES, front, static_files
from tieline.web.stream import Stream


def page_routes(api: Api, stream: Stream, welcome: str) -> Routes:
    """Everything that the page needs. Its files are for everybody; what they show needs the key if there is one."""
    files = static_files()
    pages = {path: Route(files[name].serve, render_error, keyed=False) for path, name in PAGES.items() if path != "/"}
    pages["/"] = Route(front(files[PAGES["/"]], welcome), render_error, keyed=False)
    statics = {
        f"/static/{name}": Route(file.serve, render_error, keyed=False)
        for name, file in files.items()
        if name not in PAGES.values()
    }
    icon = statics.get("/static/favicon.svg")
    reading = {**pages, **statics, **({"/favicon.ico": icon} if icon else {})}
    return {
        **{path: {"GET": route, "HEAD": route} for path, route in reading.items()},
        "/api/state": {"GET": Route(api.state, render_error, keyed=False)},
        "/api/login": {"POST": Route(api.login, render_error, keyed=False)},
        "/api/stream": {"GET": Route(stream.serve, render_error)},
        "/api/files": {"GET": Route(api.files, render_error)},
        "/api/sessions": {"POST": Route(api.create, render_error)},
        "/api/sessions/*": {
            "GET": Route(api.session, render_error),
            "PATCH": Route(api.change, render_error),
            "DELETE": Route(api.delete, render_error),
            "POST": Route(api.act, render_error),
        },
        "/api/traffic": {"GET": Route(api.traffic, render_error)},
        "/api/traffic/*": {"GET": Route(api.leg, render_error)},
        "/api/connect": {"GET": Route(api.connect, render_error)},
        "/api/connect/cursor": {"POST": Route(api.begin_login, render_error)},
    }
