"""A simulator of Cursor's service, for automated and manual tests of its clients.

It serves HTTP/1.1 and HTTP/2 on one port, with or without TLS, and plays a turn as the service does: it requests the
context, reads the history from blobs that the client stores, sends new blobs and waits for their acknowledgement, lets
the client run tools, sends checkpoints, and finishes with an end frame. Its model is the demo model, so neither an
account nor a network is needed. It can also ask the user questions (see `user_questions`).

    async with CursorSim() as sim:              # a free local port: sim.url, sim.port
        ...
        assert (sim.runs, sim.legs) == (1, 2)   # one run for a turn with one round of tool results
        sim.journal[-1].kinds                   # the kinds of the client's messages
        await sim.until(lambda: sim.journal[-1].ending == "ended")

Runs can be scripted. `CursorSim(script=…)` replaces the usual turn, and `sim.scripts.queue(…)` sets the scripts for the
next runs. A script is a list of steps in JSON form, or a program, which is a function that yields steps:

    sim.scripts.queue(["open", {"text": "Half an ans"}, {"leave": "cut"}])

    def stall(turn: ServerTurn) -> Iterator[Step]:
        yield from turn.opening()
        request = ExecServerMessage(mcp_args=…)
        yield turn.run.ask_exec(request)        # sets `request.id`
        yield Wait(lambda: turn.run.is_answered(request.id))
        yield Wait(lambda: False)               # only heartbeats

A client can also select a script with a user message: `!cursor {"steps": ["open", …]}`. `script_steps` lists all steps,
`refusals.NAMED` all errors by name, and `settings` everything that can be configured.
"""

from tieline.sim.cursor.refusals import NAMED, RunRefused, ServiceRefusal
from tieline.sim.cursor.run_input import RunRecord
from tieline.sim.cursor.script_steps import BadScript, program
from tieline.sim.cursor.server import Tls
from tieline.sim.cursor.server_run import ServerRun
from tieline.sim.cursor.server_turn import Program, ServerTurn
from tieline.sim.cursor.settings import Parameter, SimModel, SimSettings
from tieline.sim.cursor.simulator import CursorSim, serve
from tieline.sim.cursor.steps import End, Framed, GoAway, Leave, Raw, Send, Status, Step, Style, Wait

__all__ = [
    "NAMED",
    "BadScript",
    "CursorSim",
    "End",
    "Framed",
    "GoAway",
    "Leave",
    "Parameter",
    "Program",
    "Raw",
    "RunRecord",
    "RunRefused",
    "Send",
    "ServerRun",
    "ServerTurn",
    "ServiceRefusal",
    "SimModel",
    "SimSettings",
    "Status",
    "Step",
    "Style",
    "Tls",
    "Wait",
    "program",
    "serve",
]
