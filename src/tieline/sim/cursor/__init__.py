"""A simulator of Cursor's service: the server role of its protocol, so that its clients can be tried and tested.

It speaks HTTP/1.1 and HTTP/2 on one port, in the clear or with TLS, and plays a whole turn as the service does: it
asks for the request context, reads the history out of the client's blobs, stores new ones and waits for them to be
acknowledged, has tools run, sends checkpoints, and ends with an end frame. Its model is the demo model, which does
what plain words or a script say; no account and no network are needed. It asks the person something too when it is
told to (`make a plan for …`, `ask me about …`, `switch to plan mode`: `tieline.sim.cursor.interview`).

    async with CursorSim() as sim:              # a free port of this machine: sim.url, sim.port
        ...
        assert (sim.runs, sim.legs) == (1, 2)   # one run for a turn with one round of tool results
        sim.journal[-1].kinds                   # what the client said in it
        await sim.until(lambda: sim.journal[-1].ending == "ended")

What it does can be scripted. `CursorSim(script=…)` sets what is played instead of the usual turn, and
`sim.scripts.queue(…)` what is played in the next runs, each once. A script is a list of steps as JSON would have
them, or a program, which is a function that gives steps:

    sim.scripts.queue(["open", {"text": "Half an ans"}, {"leave": "cut"}])

    def stall(turn: Turn) -> Iterator[Step]:
        yield from turn.opening()
        yield turn.run.ask_exec(ExecServerMessage(mcp_args=…))
        yield Wait(lambda: turn.run.is_answered(2))
        yield Wait(lambda: False)               # heartbeats, and nothing else

A client that cannot reach into the simulator says it in the user's words: `!cursor {"steps": ["open", …]}`. All steps
are listed in `tieline.sim.cursor.faults`, all errors by name in `tieline.sim.cursor.refusals.NAMED`, and what can be
set (heartbeats, patience, models, who is let in) in `tieline.sim.cursor.settings`.
"""

from tieline.sim.cursor.faults import BadScript, program
from tieline.sim.cursor.line import Record
from tieline.sim.cursor.refusals import NAMED, Refusal, RunRefused
from tieline.sim.cursor.run import Run
from tieline.sim.cursor.server import Tls
from tieline.sim.cursor.settings import Model, Parameter, Settings
from tieline.sim.cursor.simulator import CursorSim, serve
from tieline.sim.cursor.steps import End, Framed, GoAway, Leave, Raw, Send, Status, Step, Style, Wait
from tieline.sim.cursor.turn import Program, Turn

__all__ = [
    "NAMED",
    "BadScript",
    "CursorSim",
    "End",
    "Framed",
    "GoAway",
    "Leave",
    "Model",
    "Parameter",
    "Program",
    "Raw",
    "Record",
    "Refusal",
    "Run",
    "RunRefused",
    "Send",
    "Settings",
    "Status",
    "Step",
    "Style",
    "Tls",
    "Turn",
    "Wait",
    "program",
    "serve",
]
