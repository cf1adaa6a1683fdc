from tieline.wire.cursor._pb import context_pb2 as _context_pb2
from tieline.wire.cursor._pb import queries_pb2 as _queries_pb2
from tieline.wire.cursor._pb import shared_pb2 as _shared_pb2
from tieline.wire.cursor._pb import tool_calls_pb2 as _tool_calls_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ConversationAction(_message.Message):
    __slots__ = ("user_message_action", "resume_action", "cancel_action", "summarize_action", "shell_command_action", "start_plan_action", "execute_plan_action", "async_ask_question_completion_action", "cancel_subagent_action", "background_task_completion_action", "background_shell_action", "background_subagent_action", "subscription_notification_action", "goal_continuation_action", "inject_context_action", "triggering_auth_id", "triggering_user_info", "request_context_parts")
    USER_MESSAGE_ACTION_FIELD_NUMBER: _ClassVar[int]
    RESUME_ACTION_FIELD_NUMBER: _ClassVar[int]
    CANCEL_ACTION_FIELD_NUMBER: _ClassVar[int]
    SUMMARIZE_ACTION_FIELD_NUMBER: _ClassVar[int]
    SHELL_COMMAND_ACTION_FIELD_NUMBER: _ClassVar[int]
    START_PLAN_ACTION_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_PLAN_ACTION_FIELD_NUMBER: _ClassVar[int]
    ASYNC_ASK_QUESTION_COMPLETION_ACTION_FIELD_NUMBER: _ClassVar[int]
    CANCEL_SUBAGENT_ACTION_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_TASK_COMPLETION_ACTION_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_SHELL_ACTION_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_SUBAGENT_ACTION_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTION_NOTIFICATION_ACTION_FIELD_NUMBER: _ClassVar[int]
    GOAL_CONTINUATION_ACTION_FIELD_NUMBER: _ClassVar[int]
    INJECT_CONTEXT_ACTION_FIELD_NUMBER: _ClassVar[int]
    TRIGGERING_AUTH_ID_FIELD_NUMBER: _ClassVar[int]
    TRIGGERING_USER_INFO_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CONTEXT_PARTS_FIELD_NUMBER: _ClassVar[int]
    user_message_action: UserMessageAction
    resume_action: ResumeAction
    cancel_action: CancelAction
    summarize_action: SummarizeAction
    shell_command_action: ShellCommandAction
    start_plan_action: StartPlanAction
    execute_plan_action: ExecutePlanAction
    async_ask_question_completion_action: AsyncAskQuestionCompletionAction
    cancel_subagent_action: _shared_pb2.Opaque
    background_task_completion_action: _shared_pb2.Opaque
    background_shell_action: _shared_pb2.Opaque
    background_subagent_action: _shared_pb2.Opaque
    subscription_notification_action: _shared_pb2.Opaque
    goal_continuation_action: _shared_pb2.Opaque
    inject_context_action: InjectContextAction
    triggering_auth_id: str
    triggering_user_info: _shared_pb2.Opaque
    request_context_parts: _context_pb2.RequestContextPartReferences
    def __init__(self, user_message_action: _Optional[_Union[UserMessageAction, _Mapping]] = ..., resume_action: _Optional[_Union[ResumeAction, _Mapping]] = ..., cancel_action: _Optional[_Union[CancelAction, _Mapping]] = ..., summarize_action: _Optional[_Union[SummarizeAction, _Mapping]] = ..., shell_command_action: _Optional[_Union[ShellCommandAction, _Mapping]] = ..., start_plan_action: _Optional[_Union[StartPlanAction, _Mapping]] = ..., execute_plan_action: _Optional[_Union[ExecutePlanAction, _Mapping]] = ..., async_ask_question_completion_action: _Optional[_Union[AsyncAskQuestionCompletionAction, _Mapping]] = ..., cancel_subagent_action: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., background_task_completion_action: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., background_shell_action: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., background_subagent_action: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., subscription_notification_action: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., goal_continuation_action: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., inject_context_action: _Optional[_Union[InjectContextAction, _Mapping]] = ..., triggering_auth_id: _Optional[str] = ..., triggering_user_info: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., request_context_parts: _Optional[_Union[_context_pb2.RequestContextPartReferences, _Mapping]] = ...) -> None: ...

class UserMessageAction(_message.Message):
    __slots__ = ("user_message", "request_context", "send_to_interaction_listener", "prepend_user_messages", "interrupted_pending_tool_call_resolutions", "conversation_history")
    USER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SEND_TO_INTERACTION_LISTENER_FIELD_NUMBER: _ClassVar[int]
    PREPEND_USER_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTED_PENDING_TOOL_CALL_RESOLUTIONS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_HISTORY_FIELD_NUMBER: _ClassVar[int]
    user_message: UserMessage
    request_context: _context_pb2.RequestContext
    send_to_interaction_listener: bool
    prepend_user_messages: _containers.RepeatedCompositeFieldContainer[UserMessage]
    interrupted_pending_tool_call_resolutions: _shared_pb2.Opaque
    conversation_history: ConversationHistory
    def __init__(self, user_message: _Optional[_Union[UserMessage, _Mapping]] = ..., request_context: _Optional[_Union[_context_pb2.RequestContext, _Mapping]] = ..., send_to_interaction_listener: _Optional[bool] = ..., prepend_user_messages: _Optional[_Iterable[_Union[UserMessage, _Mapping]]] = ..., interrupted_pending_tool_call_resolutions: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., conversation_history: _Optional[_Union[ConversationHistory, _Mapping]] = ...) -> None: ...

class ResumeAction(_message.Message):
    __slots__ = ("request_context",)
    REQUEST_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    request_context: _context_pb2.RequestContext
    def __init__(self, request_context: _Optional[_Union[_context_pb2.RequestContext, _Mapping]] = ...) -> None: ...

class CancelAction(_message.Message):
    __slots__ = ("reason", "interrupted_pending_tool_call_resolutions")
    REASON_FIELD_NUMBER: _ClassVar[int]
    INTERRUPTED_PENDING_TOOL_CALL_RESOLUTIONS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    interrupted_pending_tool_call_resolutions: _shared_pb2.Opaque
    def __init__(self, reason: _Optional[str] = ..., interrupted_pending_tool_call_resolutions: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class SummarizeAction(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ShellCommandAction(_message.Message):
    __slots__ = ("shell_command", "exec_id")
    SHELL_COMMAND_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    shell_command: ShellCommand
    exec_id: str
    def __init__(self, shell_command: _Optional[_Union[ShellCommand, _Mapping]] = ..., exec_id: _Optional[str] = ...) -> None: ...

class ShellCommand(_message.Message):
    __slots__ = ("command",)
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    command: str
    def __init__(self, command: _Optional[str] = ...) -> None: ...

class StartPlanAction(_message.Message):
    __slots__ = ("user_message", "request_context", "is_spec")
    USER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    IS_SPEC_FIELD_NUMBER: _ClassVar[int]
    user_message: UserMessage
    request_context: _context_pb2.RequestContext
    is_spec: bool
    def __init__(self, user_message: _Optional[_Union[UserMessage, _Mapping]] = ..., request_context: _Optional[_Union[_context_pb2.RequestContext, _Mapping]] = ..., is_spec: _Optional[bool] = ...) -> None: ...

class ExecutePlanAction(_message.Message):
    __slots__ = ("request_context", "plan", "plan_file_uri", "plan_file_content", "execution_mode", "kickoff_message_id", "plan_id", "plan_file_path")
    REQUEST_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    PLAN_FILE_URI_FIELD_NUMBER: _ClassVar[int]
    PLAN_FILE_CONTENT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_MODE_FIELD_NUMBER: _ClassVar[int]
    KICKOFF_MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    PLAN_ID_FIELD_NUMBER: _ClassVar[int]
    PLAN_FILE_PATH_FIELD_NUMBER: _ClassVar[int]
    request_context: _context_pb2.RequestContext
    plan: ConversationPlan
    plan_file_uri: str
    plan_file_content: str
    execution_mode: _shared_pb2.AgentMode
    kickoff_message_id: str
    plan_id: str
    plan_file_path: str
    def __init__(self, request_context: _Optional[_Union[_context_pb2.RequestContext, _Mapping]] = ..., plan: _Optional[_Union[ConversationPlan, _Mapping]] = ..., plan_file_uri: _Optional[str] = ..., plan_file_content: _Optional[str] = ..., execution_mode: _Optional[_Union[_shared_pb2.AgentMode, str]] = ..., kickoff_message_id: _Optional[str] = ..., plan_id: _Optional[str] = ..., plan_file_path: _Optional[str] = ...) -> None: ...

class AsyncAskQuestionCompletionAction(_message.Message):
    __slots__ = ("original_tool_call_id", "original_args", "result")
    ORIGINAL_TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    original_tool_call_id: str
    original_args: _queries_pb2.AskQuestionArgs
    result: _queries_pb2.AskQuestionResult
    def __init__(self, original_tool_call_id: _Optional[str] = ..., original_args: _Optional[_Union[_queries_pb2.AskQuestionArgs, _Mapping]] = ..., result: _Optional[_Union[_queries_pb2.AskQuestionResult, _Mapping]] = ...) -> None: ...

class InjectContextAction(_message.Message):
    __slots__ = ("injection_id", "expected_run_id", "user_context", "system_context")
    INJECTION_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_RUN_ID_FIELD_NUMBER: _ClassVar[int]
    USER_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    injection_id: str
    expected_run_id: str
    user_context: UserContextInjection
    system_context: SystemContextInjection
    def __init__(self, injection_id: _Optional[str] = ..., expected_run_id: _Optional[str] = ..., user_context: _Optional[_Union[UserContextInjection, _Mapping]] = ..., system_context: _Optional[_Union[SystemContextInjection, _Mapping]] = ...) -> None: ...

class UserContextInjection(_message.Message):
    __slots__ = ("user_message", "request_context")
    USER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    user_message: UserMessage
    request_context: _context_pb2.RequestContext
    def __init__(self, user_message: _Optional[_Union[UserMessage, _Mapping]] = ..., request_context: _Optional[_Union[_context_pb2.RequestContext, _Mapping]] = ...) -> None: ...

class SystemContextInjection(_message.Message):
    __slots__ = ("producer", "content")
    PRODUCER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    producer: str
    content: str
    def __init__(self, producer: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class UserMessage(_message.Message):
    __slots__ = ("text", "message_id", "selected_context", "mode", "is_simulated_msg", "best_of_n_group_id", "try_use_best_of_n_promotion", "rich_text", "simulated_msg_reason", "conversation_state_blob_id", "subagent_system_reminder", "triggering_user_info", "execute_plan_info", "simulated_message_metadata", "prompt_reference_id", "thread_id", "text_blob_id", "rich_text_blob_id", "hook_additional_contexts", "custom_mode_intent", "project_details", "turn_steer", "started_at_ms", "completed_at_ms")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    SELECTED_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    IS_SIMULATED_MSG_FIELD_NUMBER: _ClassVar[int]
    BEST_OF_N_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TRY_USE_BEST_OF_N_PROMOTION_FIELD_NUMBER: _ClassVar[int]
    RICH_TEXT_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_MSG_REASON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_STATE_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_SYSTEM_REMINDER_FIELD_NUMBER: _ClassVar[int]
    TRIGGERING_USER_INFO_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_PLAN_INFO_FIELD_NUMBER: _ClassVar[int]
    SIMULATED_MESSAGE_METADATA_FIELD_NUMBER: _ClassVar[int]
    PROMPT_REFERENCE_ID_FIELD_NUMBER: _ClassVar[int]
    THREAD_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    RICH_TEXT_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    HOOK_ADDITIONAL_CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_MODE_INTENT_FIELD_NUMBER: _ClassVar[int]
    PROJECT_DETAILS_FIELD_NUMBER: _ClassVar[int]
    TURN_STEER_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    text: str
    message_id: str
    selected_context: _shared_pb2.SelectedContext
    mode: _shared_pb2.AgentMode
    is_simulated_msg: bool
    best_of_n_group_id: str
    try_use_best_of_n_promotion: bool
    rich_text: str
    simulated_msg_reason: int
    conversation_state_blob_id: bytes
    subagent_system_reminder: str
    triggering_user_info: _shared_pb2.Opaque
    execute_plan_info: _shared_pb2.Opaque
    simulated_message_metadata: _shared_pb2.Opaque
    prompt_reference_id: str
    thread_id: str
    text_blob_id: bytes
    rich_text_blob_id: bytes
    hook_additional_contexts: _containers.RepeatedCompositeFieldContainer[_shared_pb2.HookAdditionalContext]
    custom_mode_intent: _shared_pb2.Opaque
    project_details: _shared_pb2.Opaque
    turn_steer: bool
    started_at_ms: int
    completed_at_ms: int
    def __init__(self, text: _Optional[str] = ..., message_id: _Optional[str] = ..., selected_context: _Optional[_Union[_shared_pb2.SelectedContext, _Mapping]] = ..., mode: _Optional[_Union[_shared_pb2.AgentMode, str]] = ..., is_simulated_msg: _Optional[bool] = ..., best_of_n_group_id: _Optional[str] = ..., try_use_best_of_n_promotion: _Optional[bool] = ..., rich_text: _Optional[str] = ..., simulated_msg_reason: _Optional[int] = ..., conversation_state_blob_id: _Optional[bytes] = ..., subagent_system_reminder: _Optional[str] = ..., triggering_user_info: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., execute_plan_info: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., simulated_message_metadata: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., prompt_reference_id: _Optional[str] = ..., thread_id: _Optional[str] = ..., text_blob_id: _Optional[bytes] = ..., rich_text_blob_id: _Optional[bytes] = ..., hook_additional_contexts: _Optional[_Iterable[_Union[_shared_pb2.HookAdditionalContext, _Mapping]]] = ..., custom_mode_intent: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., project_details: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., turn_steer: _Optional[bool] = ..., started_at_ms: _Optional[int] = ..., completed_at_ms: _Optional[int] = ...) -> None: ...

class ConversationHistory(_message.Message):
    __slots__ = ("messages", "replace_user_info")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REPLACE_USER_INFO_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ConversationHistoryMessage]
    replace_user_info: bool
    def __init__(self, messages: _Optional[_Iterable[_Union[ConversationHistoryMessage, _Mapping]]] = ..., replace_user_info: _Optional[bool] = ...) -> None: ...

class ConversationHistoryMessage(_message.Message):
    __slots__ = ("user", "assistant", "tool")
    USER_FIELD_NUMBER: _ClassVar[int]
    ASSISTANT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    user: ConversationHistoryUserMessage
    assistant: ConversationHistoryAssistantMessage
    tool: ConversationHistoryToolMessage
    def __init__(self, user: _Optional[_Union[ConversationHistoryUserMessage, _Mapping]] = ..., assistant: _Optional[_Union[ConversationHistoryAssistantMessage, _Mapping]] = ..., tool: _Optional[_Union[ConversationHistoryToolMessage, _Mapping]] = ...) -> None: ...

class ConversationHistoryUserMessage(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: _containers.RepeatedCompositeFieldContainer[ConversationHistoryUserContent]
    def __init__(self, content: _Optional[_Iterable[_Union[ConversationHistoryUserContent, _Mapping]]] = ...) -> None: ...

class ConversationHistoryUserContent(_message.Message):
    __slots__ = ("text", "image")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    text: ConversationHistoryTextContent
    image: ConversationHistoryImageContent
    def __init__(self, text: _Optional[_Union[ConversationHistoryTextContent, _Mapping]] = ..., image: _Optional[_Union[ConversationHistoryImageContent, _Mapping]] = ...) -> None: ...

class ConversationHistoryAssistantMessage(_message.Message):
    __slots__ = ("content",)
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: _containers.RepeatedCompositeFieldContainer[ConversationHistoryAssistantContent]
    def __init__(self, content: _Optional[_Iterable[_Union[ConversationHistoryAssistantContent, _Mapping]]] = ...) -> None: ...

class ConversationHistoryAssistantContent(_message.Message):
    __slots__ = ("text", "reasoning", "redacted_reasoning", "tool_call")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REASONING_FIELD_NUMBER: _ClassVar[int]
    REDACTED_REASONING_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    text: ConversationHistoryTextContent
    reasoning: _shared_pb2.Opaque
    redacted_reasoning: _shared_pb2.Opaque
    tool_call: ConversationHistoryToolCall
    def __init__(self, text: _Optional[_Union[ConversationHistoryTextContent, _Mapping]] = ..., reasoning: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., redacted_reasoning: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., tool_call: _Optional[_Union[ConversationHistoryToolCall, _Mapping]] = ...) -> None: ...

class ConversationHistoryToolCall(_message.Message):
    __slots__ = ("tool_call_id", "tool_name", "args_json")
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    tool_name: str
    args_json: str
    def __init__(self, tool_call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., args_json: _Optional[str] = ...) -> None: ...

class ConversationHistoryToolMessage(_message.Message):
    __slots__ = ("tool_call_id", "tool_name", "content", "is_error", "hook_additional_contexts")
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    HOOK_ADDITIONAL_CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    tool_name: str
    content: _containers.RepeatedCompositeFieldContainer[ConversationHistoryToolResultContent]
    is_error: bool
    hook_additional_contexts: _containers.RepeatedCompositeFieldContainer[_shared_pb2.HookAdditionalContext]
    def __init__(self, tool_call_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., content: _Optional[_Iterable[_Union[ConversationHistoryToolResultContent, _Mapping]]] = ..., is_error: _Optional[bool] = ..., hook_additional_contexts: _Optional[_Iterable[_Union[_shared_pb2.HookAdditionalContext, _Mapping]]] = ...) -> None: ...

class ConversationHistoryToolResultContent(_message.Message):
    __slots__ = ("text", "image")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    text: ConversationHistoryTextContent
    image: ConversationHistoryImageContent
    def __init__(self, text: _Optional[_Union[ConversationHistoryTextContent, _Mapping]] = ..., image: _Optional[_Union[ConversationHistoryImageContent, _Mapping]] = ...) -> None: ...

class ConversationHistoryTextContent(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class ConversationHistoryImageContent(_message.Message):
    __slots__ = ("data", "mime_type")
    DATA_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    data: str
    mime_type: str
    def __init__(self, data: _Optional[str] = ..., mime_type: _Optional[str] = ...) -> None: ...

class ConversationStateStructure(_message.Message):
    __slots__ = ("root_prompt_messages_json", "todos", "pending_tool_calls", "token_details", "summary", "plan", "turns", "previous_workspace_uris", "mode", "summary_archive", "file_states", "summary_archives", "turn_timings", "file_states_v2", "subagent_states", "self_summary_count", "read_paths", "active_branch_name", "plans", "tracked_git_repo_branches", "agent_type", "communicate_update_history", "subagent_threads", "communicate_update_final_summary", "conversation_started_timestamp_ms", "conversation_started_time_zone", "communicate_update_completed_subtitle", "communicate_update_states_by_parent_tool_call_id", "subagent_runs_by_parent_tool_call_id", "subagent_state_refs", "goal_state", "is_root_project_conversation", "completed_ask_question_tool_call_ids", "durable_skill_blocks", "durable_custom_mode_id", "message_count_at_last_compaction")
    class FileStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    class FileStatesV2Entry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: FileStateStructure
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[FileStateStructure, _Mapping]] = ...) -> None: ...
    class SubagentStatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _shared_pb2.Opaque
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...
    class PlansEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _shared_pb2.Opaque
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...
    class SubagentThreadsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class CommunicateUpdateStatesByParentToolCallIdEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _shared_pb2.Opaque
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...
    class SubagentRunsByParentToolCallIdEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _shared_pb2.Opaque
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...
    class SubagentStateRefsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: bytes
        def __init__(self, key: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    ROOT_PROMPT_MESSAGES_JSON_FIELD_NUMBER: _ClassVar[int]
    TODOS_FIELD_NUMBER: _ClassVar[int]
    PENDING_TOOL_CALLS_FIELD_NUMBER: _ClassVar[int]
    TOKEN_DETAILS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    PLAN_FIELD_NUMBER: _ClassVar[int]
    TURNS_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_WORKSPACE_URIS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_ARCHIVE_FIELD_NUMBER: _ClassVar[int]
    FILE_STATES_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_ARCHIVES_FIELD_NUMBER: _ClassVar[int]
    TURN_TIMINGS_FIELD_NUMBER: _ClassVar[int]
    FILE_STATES_V2_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_STATES_FIELD_NUMBER: _ClassVar[int]
    SELF_SUMMARY_COUNT_FIELD_NUMBER: _ClassVar[int]
    READ_PATHS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_BRANCH_NAME_FIELD_NUMBER: _ClassVar[int]
    PLANS_FIELD_NUMBER: _ClassVar[int]
    TRACKED_GIT_REPO_BRANCHES_FIELD_NUMBER: _ClassVar[int]
    AGENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATE_UPDATE_HISTORY_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_THREADS_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATE_UPDATE_FINAL_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_STARTED_TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_STARTED_TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATE_UPDATE_COMPLETED_SUBTITLE_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATE_UPDATE_STATES_BY_PARENT_TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_RUNS_BY_PARENT_TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_STATE_REFS_FIELD_NUMBER: _ClassVar[int]
    GOAL_STATE_FIELD_NUMBER: _ClassVar[int]
    IS_ROOT_PROJECT_CONVERSATION_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_ASK_QUESTION_TOOL_CALL_IDS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_SKILL_BLOCKS_FIELD_NUMBER: _ClassVar[int]
    DURABLE_CUSTOM_MODE_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_COUNT_AT_LAST_COMPACTION_FIELD_NUMBER: _ClassVar[int]
    root_prompt_messages_json: _containers.RepeatedScalarFieldContainer[bytes]
    todos: _containers.RepeatedScalarFieldContainer[bytes]
    pending_tool_calls: _containers.RepeatedScalarFieldContainer[str]
    token_details: ConversationTokenDetails
    summary: bytes
    plan: bytes
    turns: _containers.RepeatedScalarFieldContainer[bytes]
    previous_workspace_uris: _containers.RepeatedScalarFieldContainer[str]
    mode: _shared_pb2.AgentMode
    summary_archive: bytes
    file_states: _containers.ScalarMap[str, bytes]
    summary_archives: _containers.RepeatedScalarFieldContainer[bytes]
    turn_timings: _containers.RepeatedCompositeFieldContainer[StepTiming]
    file_states_v2: _containers.MessageMap[str, FileStateStructure]
    subagent_states: _containers.MessageMap[str, _shared_pb2.Opaque]
    self_summary_count: int
    read_paths: _containers.RepeatedScalarFieldContainer[str]
    active_branch_name: str
    plans: _containers.MessageMap[str, _shared_pb2.Opaque]
    tracked_git_repo_branches: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    agent_type: str
    communicate_update_history: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    subagent_threads: _containers.ScalarMap[str, str]
    communicate_update_final_summary: str
    conversation_started_timestamp_ms: int
    conversation_started_time_zone: str
    communicate_update_completed_subtitle: str
    communicate_update_states_by_parent_tool_call_id: _containers.MessageMap[str, _shared_pb2.Opaque]
    subagent_runs_by_parent_tool_call_id: _containers.MessageMap[str, _shared_pb2.Opaque]
    subagent_state_refs: _containers.ScalarMap[str, bytes]
    goal_state: _shared_pb2.Opaque
    is_root_project_conversation: bool
    completed_ask_question_tool_call_ids: _containers.RepeatedScalarFieldContainer[str]
    durable_skill_blocks: _containers.RepeatedScalarFieldContainer[str]
    durable_custom_mode_id: str
    message_count_at_last_compaction: int
    def __init__(self, root_prompt_messages_json: _Optional[_Iterable[bytes]] = ..., todos: _Optional[_Iterable[bytes]] = ..., pending_tool_calls: _Optional[_Iterable[str]] = ..., token_details: _Optional[_Union[ConversationTokenDetails, _Mapping]] = ..., summary: _Optional[bytes] = ..., plan: _Optional[bytes] = ..., turns: _Optional[_Iterable[bytes]] = ..., previous_workspace_uris: _Optional[_Iterable[str]] = ..., mode: _Optional[_Union[_shared_pb2.AgentMode, str]] = ..., summary_archive: _Optional[bytes] = ..., file_states: _Optional[_Mapping[str, bytes]] = ..., summary_archives: _Optional[_Iterable[bytes]] = ..., turn_timings: _Optional[_Iterable[_Union[StepTiming, _Mapping]]] = ..., file_states_v2: _Optional[_Mapping[str, FileStateStructure]] = ..., subagent_states: _Optional[_Mapping[str, _shared_pb2.Opaque]] = ..., self_summary_count: _Optional[int] = ..., read_paths: _Optional[_Iterable[str]] = ..., active_branch_name: _Optional[str] = ..., plans: _Optional[_Mapping[str, _shared_pb2.Opaque]] = ..., tracked_git_repo_branches: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ..., agent_type: _Optional[str] = ..., communicate_update_history: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ..., subagent_threads: _Optional[_Mapping[str, str]] = ..., communicate_update_final_summary: _Optional[str] = ..., conversation_started_timestamp_ms: _Optional[int] = ..., conversation_started_time_zone: _Optional[str] = ..., communicate_update_completed_subtitle: _Optional[str] = ..., communicate_update_states_by_parent_tool_call_id: _Optional[_Mapping[str, _shared_pb2.Opaque]] = ..., subagent_runs_by_parent_tool_call_id: _Optional[_Mapping[str, _shared_pb2.Opaque]] = ..., subagent_state_refs: _Optional[_Mapping[str, bytes]] = ..., goal_state: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., is_root_project_conversation: _Optional[bool] = ..., completed_ask_question_tool_call_ids: _Optional[_Iterable[str]] = ..., durable_skill_blocks: _Optional[_Iterable[str]] = ..., durable_custom_mode_id: _Optional[str] = ..., message_count_at_last_compaction: _Optional[int] = ...) -> None: ...

class ConversationTokenDetails(_message.Message):
    __slots__ = ("used_tokens", "max_tokens", "breakdown", "prompt_context_usage_tree", "prompt_context_usage_snapshot_blob_id")
    USED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    BREAKDOWN_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CONTEXT_USAGE_TREE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_CONTEXT_USAGE_SNAPSHOT_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    used_tokens: int
    max_tokens: int
    breakdown: PromptTokenBreakdownSnapshot
    prompt_context_usage_tree: _shared_pb2.Opaque
    prompt_context_usage_snapshot_blob_id: bytes
    def __init__(self, used_tokens: _Optional[int] = ..., max_tokens: _Optional[int] = ..., breakdown: _Optional[_Union[PromptTokenBreakdownSnapshot, _Mapping]] = ..., prompt_context_usage_tree: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., prompt_context_usage_snapshot_blob_id: _Optional[bytes] = ...) -> None: ...

class PromptTokenBreakdownSnapshot(_message.Message):
    __slots__ = ("total_used_tokens", "max_tokens", "categories")
    TOTAL_USED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CATEGORIES_FIELD_NUMBER: _ClassVar[int]
    total_used_tokens: int
    max_tokens: int
    categories: _containers.RepeatedCompositeFieldContainer[PromptTokenBreakdownCategory]
    def __init__(self, total_used_tokens: _Optional[int] = ..., max_tokens: _Optional[int] = ..., categories: _Optional[_Iterable[_Union[PromptTokenBreakdownCategory, _Mapping]]] = ...) -> None: ...

class PromptTokenBreakdownCategory(_message.Message):
    __slots__ = ("id", "label", "estimated_tokens", "character_count")
    ID_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    ESTIMATED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CHARACTER_COUNT_FIELD_NUMBER: _ClassVar[int]
    id: str
    label: str
    estimated_tokens: int
    character_count: int
    def __init__(self, id: _Optional[str] = ..., label: _Optional[str] = ..., estimated_tokens: _Optional[int] = ..., character_count: _Optional[int] = ...) -> None: ...

class ConversationTurnStructure(_message.Message):
    __slots__ = ("agent_conversation_turn", "shell_conversation_turn")
    AGENT_CONVERSATION_TURN_FIELD_NUMBER: _ClassVar[int]
    SHELL_CONVERSATION_TURN_FIELD_NUMBER: _ClassVar[int]
    agent_conversation_turn: AgentConversationTurnStructure
    shell_conversation_turn: ShellConversationTurnStructure
    def __init__(self, agent_conversation_turn: _Optional[_Union[AgentConversationTurnStructure, _Mapping]] = ..., shell_conversation_turn: _Optional[_Union[ShellConversationTurnStructure, _Mapping]] = ...) -> None: ...

class AgentConversationTurnStructure(_message.Message):
    __slots__ = ("user_message", "steps", "request_id", "encrypted_model", "dynamic_tool_count", "send_message_step_indices", "routed_model_display_name", "subagent_dispatch_steps")
    USER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ENCRYPTED_MODEL_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_TOOL_COUNT_FIELD_NUMBER: _ClassVar[int]
    SEND_MESSAGE_STEP_INDICES_FIELD_NUMBER: _ClassVar[int]
    ROUTED_MODEL_DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_DISPATCH_STEPS_FIELD_NUMBER: _ClassVar[int]
    user_message: bytes
    steps: _containers.RepeatedScalarFieldContainer[bytes]
    request_id: str
    encrypted_model: str
    dynamic_tool_count: int
    send_message_step_indices: _containers.RepeatedScalarFieldContainer[int]
    routed_model_display_name: str
    subagent_dispatch_steps: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    def __init__(self, user_message: _Optional[bytes] = ..., steps: _Optional[_Iterable[bytes]] = ..., request_id: _Optional[str] = ..., encrypted_model: _Optional[str] = ..., dynamic_tool_count: _Optional[int] = ..., send_message_step_indices: _Optional[_Iterable[int]] = ..., routed_model_display_name: _Optional[str] = ..., subagent_dispatch_steps: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ...) -> None: ...

class ShellConversationTurnStructure(_message.Message):
    __slots__ = ("shell_command", "shell_output")
    SHELL_COMMAND_FIELD_NUMBER: _ClassVar[int]
    SHELL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    shell_command: bytes
    shell_output: bytes
    def __init__(self, shell_command: _Optional[bytes] = ..., shell_output: _Optional[bytes] = ...) -> None: ...

class ConversationStep(_message.Message):
    __slots__ = ("assistant_message", "tool_call", "thinking_message")
    ASSISTANT_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    THINKING_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    assistant_message: AssistantMessage
    tool_call: _tool_calls_pb2.ToolCall
    thinking_message: ThinkingMessage
    def __init__(self, assistant_message: _Optional[_Union[AssistantMessage, _Mapping]] = ..., tool_call: _Optional[_Union[_tool_calls_pb2.ToolCall, _Mapping]] = ..., thinking_message: _Optional[_Union[ThinkingMessage, _Mapping]] = ...) -> None: ...

class AssistantMessage(_message.Message):
    __slots__ = ("text", "started_at_ms", "completed_at_ms")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    text: str
    started_at_ms: int
    completed_at_ms: int
    def __init__(self, text: _Optional[str] = ..., started_at_ms: _Optional[int] = ..., completed_at_ms: _Optional[int] = ...) -> None: ...

class ThinkingMessage(_message.Message):
    __slots__ = ("text", "duration_ms", "started_at_ms", "completed_at_ms")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    text: str
    duration_ms: int
    started_at_ms: int
    completed_at_ms: int
    def __init__(self, text: _Optional[str] = ..., duration_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., completed_at_ms: _Optional[int] = ...) -> None: ...

class StepTiming(_message.Message):
    __slots__ = ("duration_ms", "timestamp_ms")
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_MS_FIELD_NUMBER: _ClassVar[int]
    duration_ms: int
    timestamp_ms: int
    def __init__(self, duration_ms: _Optional[int] = ..., timestamp_ms: _Optional[int] = ...) -> None: ...

class FileStateStructure(_message.Message):
    __slots__ = ("content", "initial_content")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    INITIAL_CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: bytes
    initial_content: bytes
    def __init__(self, content: _Optional[bytes] = ..., initial_content: _Optional[bytes] = ...) -> None: ...

class ConversationSummaryArchive(_message.Message):
    __slots__ = ("summarized_messages", "summary", "window_tail", "summary_message")
    SUMMARIZED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    WINDOW_TAIL_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    summarized_messages: _containers.RepeatedScalarFieldContainer[bytes]
    summary: str
    window_tail: int
    summary_message: bytes
    def __init__(self, summarized_messages: _Optional[_Iterable[bytes]] = ..., summary: _Optional[str] = ..., window_tail: _Optional[int] = ..., summary_message: _Optional[bytes] = ...) -> None: ...

class ConversationPlan(_message.Message):
    __slots__ = ("plan",)
    PLAN_FIELD_NUMBER: _ClassVar[int]
    plan: str
    def __init__(self, plan: _Optional[str] = ...) -> None: ...

class ConversationSummary(_message.Message):
    __slots__ = ("summary",)
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    summary: str
    def __init__(self, summary: _Optional[str] = ...) -> None: ...
