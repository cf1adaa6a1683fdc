from tieline.wire.cursor._pb import conversation_pb2 as _conversation_pb2
from tieline.wire.cursor._pb import exec_kinds_pb2 as _exec_kinds_pb2
from tieline.wire.cursor._pb import shared_pb2 as _shared_pb2
from tieline.wire.cursor._pb import tool_calls_pb2 as _tool_calls_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InteractionUpdate(_message.Message):
    __slots__ = ("text_delta", "tool_call_started", "tool_call_completed", "thinking_delta", "thinking_completed", "user_message_appended", "partial_tool_call", "token_delta", "summary", "summary_started", "summary_completed", "shell_output_delta", "heartbeat", "turn_ended", "tool_call_delta", "step_started", "step_completed", "prompt_suggestion", "post_request_prompt", "active_branch_change", "feedback_request", "response_comparison", "context_injection_state", "routed_model", "message_started_at_ms")
    TEXT_DELTA_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_STARTED_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    THINKING_DELTA_FIELD_NUMBER: _ClassVar[int]
    THINKING_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    USER_MESSAGE_APPENDED_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_DELTA_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_STARTED_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    SHELL_OUTPUT_DELTA_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    TURN_ENDED_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_DELTA_FIELD_NUMBER: _ClassVar[int]
    STEP_STARTED_FIELD_NUMBER: _ClassVar[int]
    STEP_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    PROMPT_SUGGESTION_FIELD_NUMBER: _ClassVar[int]
    POST_REQUEST_PROMPT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_BRANCH_CHANGE_FIELD_NUMBER: _ClassVar[int]
    FEEDBACK_REQUEST_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_COMPARISON_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_INJECTION_STATE_FIELD_NUMBER: _ClassVar[int]
    ROUTED_MODEL_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    text_delta: TextDeltaUpdate
    tool_call_started: ToolCallStartedUpdate
    tool_call_completed: ToolCallCompletedUpdate
    thinking_delta: ThinkingDeltaUpdate
    thinking_completed: ThinkingCompletedUpdate
    user_message_appended: UserMessageAppendedUpdate
    partial_tool_call: PartialToolCallUpdate
    token_delta: TokenDeltaUpdate
    summary: SummaryUpdate
    summary_started: SummaryStartedUpdate
    summary_completed: SummaryCompletedUpdate
    shell_output_delta: ShellOutputDeltaUpdate
    heartbeat: HeartbeatUpdate
    turn_ended: TurnEndedUpdate
    tool_call_delta: ToolCallDeltaUpdate
    step_started: StepStartedUpdate
    step_completed: StepCompletedUpdate
    prompt_suggestion: PromptSuggestionUpdate
    post_request_prompt: PostRequestPromptUpdate
    active_branch_change: ActiveBranchChange
    feedback_request: _shared_pb2.Opaque
    response_comparison: _shared_pb2.Opaque
    context_injection_state: ContextInjectionStateUpdate
    routed_model: RoutedModelUpdate
    message_started_at_ms: int
    def __init__(self, text_delta: _Optional[_Union[TextDeltaUpdate, _Mapping]] = ..., tool_call_started: _Optional[_Union[ToolCallStartedUpdate, _Mapping]] = ..., tool_call_completed: _Optional[_Union[ToolCallCompletedUpdate, _Mapping]] = ..., thinking_delta: _Optional[_Union[ThinkingDeltaUpdate, _Mapping]] = ..., thinking_completed: _Optional[_Union[ThinkingCompletedUpdate, _Mapping]] = ..., user_message_appended: _Optional[_Union[UserMessageAppendedUpdate, _Mapping]] = ..., partial_tool_call: _Optional[_Union[PartialToolCallUpdate, _Mapping]] = ..., token_delta: _Optional[_Union[TokenDeltaUpdate, _Mapping]] = ..., summary: _Optional[_Union[SummaryUpdate, _Mapping]] = ..., summary_started: _Optional[_Union[SummaryStartedUpdate, _Mapping]] = ..., summary_completed: _Optional[_Union[SummaryCompletedUpdate, _Mapping]] = ..., shell_output_delta: _Optional[_Union[ShellOutputDeltaUpdate, _Mapping]] = ..., heartbeat: _Optional[_Union[HeartbeatUpdate, _Mapping]] = ..., turn_ended: _Optional[_Union[TurnEndedUpdate, _Mapping]] = ..., tool_call_delta: _Optional[_Union[ToolCallDeltaUpdate, _Mapping]] = ..., step_started: _Optional[_Union[StepStartedUpdate, _Mapping]] = ..., step_completed: _Optional[_Union[StepCompletedUpdate, _Mapping]] = ..., prompt_suggestion: _Optional[_Union[PromptSuggestionUpdate, _Mapping]] = ..., post_request_prompt: _Optional[_Union[PostRequestPromptUpdate, _Mapping]] = ..., active_branch_change: _Optional[_Union[ActiveBranchChange, _Mapping]] = ..., feedback_request: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., response_comparison: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., context_injection_state: _Optional[_Union[ContextInjectionStateUpdate, _Mapping]] = ..., routed_model: _Optional[_Union[RoutedModelUpdate, _Mapping]] = ..., message_started_at_ms: _Optional[int] = ...) -> None: ...

class TextDeltaUpdate(_message.Message):
    __slots__ = ("text", "is_server_notice")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    IS_SERVER_NOTICE_FIELD_NUMBER: _ClassVar[int]
    text: str
    is_server_notice: bool
    def __init__(self, text: _Optional[str] = ..., is_server_notice: _Optional[bool] = ...) -> None: ...

class ThinkingDeltaUpdate(_message.Message):
    __slots__ = ("text", "thinking_style")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    THINKING_STYLE_FIELD_NUMBER: _ClassVar[int]
    text: str
    thinking_style: _shared_pb2.ThinkingStyle
    def __init__(self, text: _Optional[str] = ..., thinking_style: _Optional[_Union[_shared_pb2.ThinkingStyle, str]] = ...) -> None: ...

class ThinkingCompletedUpdate(_message.Message):
    __slots__ = ("thinking_duration_ms",)
    THINKING_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    thinking_duration_ms: int
    def __init__(self, thinking_duration_ms: _Optional[int] = ...) -> None: ...

class ToolCallStartedUpdate(_message.Message):
    __slots__ = ("call_id", "tool_call", "model_call_id")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_call: _tool_calls_pb2.ToolCall
    model_call_id: str
    def __init__(self, call_id: _Optional[str] = ..., tool_call: _Optional[_Union[_tool_calls_pb2.ToolCall, _Mapping]] = ..., model_call_id: _Optional[str] = ...) -> None: ...

class ToolCallCompletedUpdate(_message.Message):
    __slots__ = ("call_id", "tool_call", "model_call_id")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_call: _tool_calls_pb2.ToolCall
    model_call_id: str
    def __init__(self, call_id: _Optional[str] = ..., tool_call: _Optional[_Union[_tool_calls_pb2.ToolCall, _Mapping]] = ..., model_call_id: _Optional[str] = ...) -> None: ...

class PartialToolCallUpdate(_message.Message):
    __slots__ = ("call_id", "tool_call", "args_text_delta", "model_call_id")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    ARGS_TEXT_DELTA_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_call: _tool_calls_pb2.ToolCall
    args_text_delta: str
    model_call_id: str
    def __init__(self, call_id: _Optional[str] = ..., tool_call: _Optional[_Union[_tool_calls_pb2.ToolCall, _Mapping]] = ..., args_text_delta: _Optional[str] = ..., model_call_id: _Optional[str] = ...) -> None: ...

class ToolCallDeltaUpdate(_message.Message):
    __slots__ = ("call_id", "tool_call_delta", "model_call_id")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_DELTA_FIELD_NUMBER: _ClassVar[int]
    MODEL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool_call_delta: ToolCallDelta
    model_call_id: str
    def __init__(self, call_id: _Optional[str] = ..., tool_call_delta: _Optional[_Union[ToolCallDelta, _Mapping]] = ..., model_call_id: _Optional[str] = ...) -> None: ...

class ToolCallDelta(_message.Message):
    __slots__ = ("shell_tool_call_delta", "task_tool_call_delta", "edit_tool_call_delta", "replace_env_tool_call_delta")
    SHELL_TOOL_CALL_DELTA_FIELD_NUMBER: _ClassVar[int]
    TASK_TOOL_CALL_DELTA_FIELD_NUMBER: _ClassVar[int]
    EDIT_TOOL_CALL_DELTA_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ENV_TOOL_CALL_DELTA_FIELD_NUMBER: _ClassVar[int]
    shell_tool_call_delta: ShellToolCallDelta
    task_tool_call_delta: TaskToolCallDelta
    edit_tool_call_delta: EditToolCallDelta
    replace_env_tool_call_delta: _shared_pb2.Opaque
    def __init__(self, shell_tool_call_delta: _Optional[_Union[ShellToolCallDelta, _Mapping]] = ..., task_tool_call_delta: _Optional[_Union[TaskToolCallDelta, _Mapping]] = ..., edit_tool_call_delta: _Optional[_Union[EditToolCallDelta, _Mapping]] = ..., replace_env_tool_call_delta: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class ShellToolCallDelta(_message.Message):
    __slots__ = ("stdout", "stderr")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    stdout: ShellToolCallStdoutDelta
    stderr: ShellToolCallStderrDelta
    def __init__(self, stdout: _Optional[_Union[ShellToolCallStdoutDelta, _Mapping]] = ..., stderr: _Optional[_Union[ShellToolCallStderrDelta, _Mapping]] = ...) -> None: ...

class ShellToolCallStdoutDelta(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: str
    def __init__(self, content: _Optional[str] = ...) -> None: ...

class ShellToolCallStderrDelta(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: str
    def __init__(self, content: _Optional[str] = ...) -> None: ...

class TaskToolCallDelta(_message.Message):
    __slots__ = ("interaction_update",)
    INTERACTION_UPDATE_FIELD_NUMBER: _ClassVar[int]
    interaction_update: InteractionUpdate
    def __init__(self, interaction_update: _Optional[_Union[InteractionUpdate, _Mapping]] = ...) -> None: ...

class EditToolCallDelta(_message.Message):
    __slots__ = ("stream_content_delta",)
    STREAM_CONTENT_DELTA_FIELD_NUMBER: _ClassVar[int]
    stream_content_delta: str
    def __init__(self, stream_content_delta: _Optional[str] = ...) -> None: ...

class UserMessageAppendedUpdate(_message.Message):
    __slots__ = ("user_message",)
    USER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    user_message: _conversation_pb2.UserMessage
    def __init__(self, user_message: _Optional[_Union[_conversation_pb2.UserMessage, _Mapping]] = ...) -> None: ...

class TokenDeltaUpdate(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: int
    def __init__(self, tokens: _Optional[int] = ...) -> None: ...

class SummaryUpdate(_message.Message):
    __slots__ = ("summary",)
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    summary: str
    def __init__(self, summary: _Optional[str] = ...) -> None: ...

class SummaryStartedUpdate(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SummaryCompletedUpdate(_message.Message):
    __slots__ = ("hook_message", "failed")
    HOOK_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    hook_message: str
    failed: bool
    def __init__(self, hook_message: _Optional[str] = ..., failed: _Optional[bool] = ...) -> None: ...

class ShellOutputDeltaUpdate(_message.Message):
    __slots__ = ("stdout", "stderr", "exit", "start")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    stdout: _exec_kinds_pb2.ShellStreamStdout
    stderr: _exec_kinds_pb2.ShellStreamStderr
    exit: _exec_kinds_pb2.ShellStreamExit
    start: _exec_kinds_pb2.ShellStreamStart
    def __init__(self, stdout: _Optional[_Union[_exec_kinds_pb2.ShellStreamStdout, _Mapping]] = ..., stderr: _Optional[_Union[_exec_kinds_pb2.ShellStreamStderr, _Mapping]] = ..., exit: _Optional[_Union[_exec_kinds_pb2.ShellStreamExit, _Mapping]] = ..., start: _Optional[_Union[_exec_kinds_pb2.ShellStreamStart, _Mapping]] = ...) -> None: ...

class HeartbeatUpdate(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TurnEndedUpdate(_message.Message):
    __slots__ = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    INPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHE_READ_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHE_WRITE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REASONING_TOKENS_FIELD_NUMBER: _ClassVar[int]
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    def __init__(self, input_tokens: _Optional[int] = ..., output_tokens: _Optional[int] = ..., cache_read_tokens: _Optional[int] = ..., cache_write_tokens: _Optional[int] = ..., reasoning_tokens: _Optional[int] = ...) -> None: ...

class StepStartedUpdate(_message.Message):
    __slots__ = ("step_id",)
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    def __init__(self, step_id: _Optional[int] = ...) -> None: ...

class StepCompletedUpdate(_message.Message):
    __slots__ = ("step_id", "step_duration_ms")
    STEP_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    step_id: int
    step_duration_ms: int
    def __init__(self, step_id: _Optional[int] = ..., step_duration_ms: _Optional[int] = ...) -> None: ...

class PromptSuggestionUpdate(_message.Message):
    __slots__ = ("suggestion",)
    SUGGESTION_FIELD_NUMBER: _ClassVar[int]
    suggestion: str
    def __init__(self, suggestion: _Optional[str] = ...) -> None: ...

class PostRequestPromptUpdate(_message.Message):
    __slots__ = ("title", "message", "button_label", "button_url")
    TITLE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    BUTTON_LABEL_FIELD_NUMBER: _ClassVar[int]
    BUTTON_URL_FIELD_NUMBER: _ClassVar[int]
    title: str
    message: str
    button_label: str
    button_url: str
    def __init__(self, title: _Optional[str] = ..., message: _Optional[str] = ..., button_label: _Optional[str] = ..., button_url: _Optional[str] = ...) -> None: ...

class ActiveBranchChange(_message.Message):
    __slots__ = ("path", "branch_name")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BRANCH_NAME_FIELD_NUMBER: _ClassVar[int]
    path: str
    branch_name: str
    def __init__(self, path: _Optional[str] = ..., branch_name: _Optional[str] = ...) -> None: ...

class RoutedModelUpdate(_message.Message):
    __slots__ = ("display_name",)
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    display_name: str
    def __init__(self, display_name: _Optional[str] = ...) -> None: ...

class ContextInjectionStateUpdate(_message.Message):
    __slots__ = ("injection_id", "state")
    INJECTION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    injection_id: str
    state: ContextInjectionState
    def __init__(self, injection_id: _Optional[str] = ..., state: _Optional[_Union[ContextInjectionState, _Mapping]] = ...) -> None: ...

class ContextInjectionState(_message.Message):
    __slots__ = ("queued", "delivered", "queued_for_next_turn", "cancelled", "rejected")
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FOR_NEXT_TURN_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    queued: _shared_pb2.Opaque
    delivered: ContextInjectionDelivered
    queued_for_next_turn: _shared_pb2.Opaque
    cancelled: _shared_pb2.Opaque
    rejected: ContextInjectionRejected
    def __init__(self, queued: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., delivered: _Optional[_Union[ContextInjectionDelivered, _Mapping]] = ..., queued_for_next_turn: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., cancelled: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., rejected: _Optional[_Union[ContextInjectionRejected, _Mapping]] = ...) -> None: ...

class ContextInjectionDelivered(_message.Message):
    __slots__ = ("step", "delivery_batch_id", "delivered_at_ms")
    STEP_FIELD_NUMBER: _ClassVar[int]
    DELIVERY_BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    DELIVERED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    step: int
    delivery_batch_id: str
    delivered_at_ms: int
    def __init__(self, step: _Optional[int] = ..., delivery_batch_id: _Optional[str] = ..., delivered_at_ms: _Optional[int] = ...) -> None: ...

class ContextInjectionRejected(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...
