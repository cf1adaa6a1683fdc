"""Messages to the service: the request context, heartbeats, and text that the user adds during a turn."""

from collections.abc import Sequence

from tieline.wire.cursor._pb import agent_pb2 as agent
from tieline.wire.cursor._pb import exec_pb2 as exec_pb
from tieline.wire.cursor._pb.context_pb2 import RequestContext

Message = agent.AgentClientMessage

HEARTBEAT = Message(client_heartbeat=agent.ClientHeartbeat()).SerializeToString()


def context(exec_id: int, request_context: RequestContext) -> Sequence[Message]:
    """Return the messages that send the request context to the service, in answer to the exec `exec_id`."""
    result = exec_pb.ExecClientMessage(id=exec_id, local_execution_time_ms=0)
    result.request_context_result.success.request_context.CopyFrom(request_context)
    close = exec_pb.ExecClientControlMessage(stream_close=exec_pb.ExecClientStreamClose(id=exec_id))
    return Message(exec_client_message=result), Message(exec_client_control_message=close)


def injection(text: str, *, run_id: str, injection_id: str, message_id: str) -> Message:
    """Return a message that adds text from the user to the current turn of the run `run_id`."""
    message = Message()
    injected = message.conversation_action.inject_context_action
    injected.injection_id = injection_id
    injected.expected_run_id = run_id
    injected.user_context.user_message.text = text
    injected.user_context.user_message.message_id = message_id
    return message
