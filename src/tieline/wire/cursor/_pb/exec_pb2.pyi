from tieline.wire.cursor._pb import context_pb2 as _context_pb2
from tieline.wire.cursor._pb import exec_kinds_pb2 as _exec_kinds_pb2
from tieline.wire.cursor._pb import shared_pb2 as _shared_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExecServerMessage(_message.Message):
    __slots__ = ("id", "shell_args", "write_args", "delete_args", "grep_args", "read_args", "ls_args", "diagnostics_args", "request_context_args", "mcp_args", "shell_stream_args", "background_shell_spawn_args", "list_mcp_resources_exec_args", "read_mcp_resource_exec_args", "fetch_args", "record_screen_args", "computer_use_args", "write_shell_stdin_args", "execute_hook_args", "subagent_args", "redacted_read_args", "force_background_shell_args", "force_background_subagent_args", "mcp_state_exec_args", "subagent_await_args", "smart_mode_classifier_args", "canvas_diagnostics_args", "shell_allowlist_precheck_args", "mcp_allowlist_precheck_args", "web_fetch_allowlist_precheck_args", "git_diff_request", "pi_read_args", "pi_bash_args", "pi_edit_args", "pi_write_args", "pi_grep_args", "pi_find_args", "pi_ls_args", "mini_swe_agent_bash_args", "conversation_search_args", "agent_store_conflict_args", "adopt_args", "exec_id", "span_context", "accept_hook_additional_contexts", "machine_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    SHELL_ARGS_FIELD_NUMBER: _ClassVar[int]
    WRITE_ARGS_FIELD_NUMBER: _ClassVar[int]
    DELETE_ARGS_FIELD_NUMBER: _ClassVar[int]
    GREP_ARGS_FIELD_NUMBER: _ClassVar[int]
    READ_ARGS_FIELD_NUMBER: _ClassVar[int]
    LS_ARGS_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_ARGS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CONTEXT_ARGS_FIELD_NUMBER: _ClassVar[int]
    MCP_ARGS_FIELD_NUMBER: _ClassVar[int]
    SHELL_STREAM_ARGS_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_SHELL_SPAWN_ARGS_FIELD_NUMBER: _ClassVar[int]
    LIST_MCP_RESOURCES_EXEC_ARGS_FIELD_NUMBER: _ClassVar[int]
    READ_MCP_RESOURCE_EXEC_ARGS_FIELD_NUMBER: _ClassVar[int]
    FETCH_ARGS_FIELD_NUMBER: _ClassVar[int]
    RECORD_SCREEN_ARGS_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_USE_ARGS_FIELD_NUMBER: _ClassVar[int]
    WRITE_SHELL_STDIN_ARGS_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_HOOK_ARGS_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_ARGS_FIELD_NUMBER: _ClassVar[int]
    REDACTED_READ_ARGS_FIELD_NUMBER: _ClassVar[int]
    FORCE_BACKGROUND_SHELL_ARGS_FIELD_NUMBER: _ClassVar[int]
    FORCE_BACKGROUND_SUBAGENT_ARGS_FIELD_NUMBER: _ClassVar[int]
    MCP_STATE_EXEC_ARGS_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_AWAIT_ARGS_FIELD_NUMBER: _ClassVar[int]
    SMART_MODE_CLASSIFIER_ARGS_FIELD_NUMBER: _ClassVar[int]
    CANVAS_DIAGNOSTICS_ARGS_FIELD_NUMBER: _ClassVar[int]
    SHELL_ALLOWLIST_PRECHECK_ARGS_FIELD_NUMBER: _ClassVar[int]
    MCP_ALLOWLIST_PRECHECK_ARGS_FIELD_NUMBER: _ClassVar[int]
    WEB_FETCH_ALLOWLIST_PRECHECK_ARGS_FIELD_NUMBER: _ClassVar[int]
    GIT_DIFF_REQUEST_FIELD_NUMBER: _ClassVar[int]
    PI_READ_ARGS_FIELD_NUMBER: _ClassVar[int]
    PI_BASH_ARGS_FIELD_NUMBER: _ClassVar[int]
    PI_EDIT_ARGS_FIELD_NUMBER: _ClassVar[int]
    PI_WRITE_ARGS_FIELD_NUMBER: _ClassVar[int]
    PI_GREP_ARGS_FIELD_NUMBER: _ClassVar[int]
    PI_FIND_ARGS_FIELD_NUMBER: _ClassVar[int]
    PI_LS_ARGS_FIELD_NUMBER: _ClassVar[int]
    MINI_SWE_AGENT_BASH_ARGS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_SEARCH_ARGS_FIELD_NUMBER: _ClassVar[int]
    AGENT_STORE_CONFLICT_ARGS_FIELD_NUMBER: _ClassVar[int]
    ADOPT_ARGS_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_HOOK_ADDITIONAL_CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    MACHINE_ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    shell_args: _exec_kinds_pb2.ShellArgs
    write_args: _exec_kinds_pb2.WriteArgs
    delete_args: _exec_kinds_pb2.DeleteArgs
    grep_args: _exec_kinds_pb2.GrepArgs
    read_args: _exec_kinds_pb2.ReadArgs
    ls_args: _exec_kinds_pb2.LsArgs
    diagnostics_args: _exec_kinds_pb2.DiagnosticsArgs
    request_context_args: _context_pb2.RequestContextArgs
    mcp_args: _exec_kinds_pb2.McpArgs
    shell_stream_args: _exec_kinds_pb2.ShellArgs
    background_shell_spawn_args: _exec_kinds_pb2.BackgroundShellSpawnArgs
    list_mcp_resources_exec_args: _exec_kinds_pb2.ListMcpResourcesExecArgs
    read_mcp_resource_exec_args: _exec_kinds_pb2.ReadMcpResourceExecArgs
    fetch_args: _exec_kinds_pb2.FetchArgs
    record_screen_args: _exec_kinds_pb2.RecordScreenArgs
    computer_use_args: _exec_kinds_pb2.ComputerUseArgs
    write_shell_stdin_args: _exec_kinds_pb2.WriteShellStdinArgs
    execute_hook_args: _exec_kinds_pb2.ExecuteHookArgs
    subagent_args: _exec_kinds_pb2.SubagentArgs
    redacted_read_args: _exec_kinds_pb2.ReadArgs
    force_background_shell_args: _exec_kinds_pb2.ForceBackgroundShellArgs
    force_background_subagent_args: _shared_pb2.Opaque
    mcp_state_exec_args: _exec_kinds_pb2.McpStateExecArgs
    subagent_await_args: _exec_kinds_pb2.SubagentAwaitArgs
    smart_mode_classifier_args: _exec_kinds_pb2.SmartModeClassifierArgs
    canvas_diagnostics_args: _shared_pb2.Opaque
    shell_allowlist_precheck_args: _shared_pb2.Opaque
    mcp_allowlist_precheck_args: _exec_kinds_pb2.McpAllowlistPrecheckArgs
    web_fetch_allowlist_precheck_args: _exec_kinds_pb2.WebFetchAllowlistPrecheckArgs
    git_diff_request: _shared_pb2.Opaque
    pi_read_args: _shared_pb2.Opaque
    pi_bash_args: _shared_pb2.Opaque
    pi_edit_args: _shared_pb2.Opaque
    pi_write_args: _shared_pb2.Opaque
    pi_grep_args: _shared_pb2.Opaque
    pi_find_args: _shared_pb2.Opaque
    pi_ls_args: _shared_pb2.Opaque
    mini_swe_agent_bash_args: _exec_kinds_pb2.ShellArgs
    conversation_search_args: _shared_pb2.Opaque
    agent_store_conflict_args: _shared_pb2.Opaque
    adopt_args: _shared_pb2.Opaque
    exec_id: str
    span_context: _shared_pb2.SpanContext
    accept_hook_additional_contexts: bool
    machine_id: str
    def __init__(self, id: _Optional[int] = ..., shell_args: _Optional[_Union[_exec_kinds_pb2.ShellArgs, _Mapping]] = ..., write_args: _Optional[_Union[_exec_kinds_pb2.WriteArgs, _Mapping]] = ..., delete_args: _Optional[_Union[_exec_kinds_pb2.DeleteArgs, _Mapping]] = ..., grep_args: _Optional[_Union[_exec_kinds_pb2.GrepArgs, _Mapping]] = ..., read_args: _Optional[_Union[_exec_kinds_pb2.ReadArgs, _Mapping]] = ..., ls_args: _Optional[_Union[_exec_kinds_pb2.LsArgs, _Mapping]] = ..., diagnostics_args: _Optional[_Union[_exec_kinds_pb2.DiagnosticsArgs, _Mapping]] = ..., request_context_args: _Optional[_Union[_context_pb2.RequestContextArgs, _Mapping]] = ..., mcp_args: _Optional[_Union[_exec_kinds_pb2.McpArgs, _Mapping]] = ..., shell_stream_args: _Optional[_Union[_exec_kinds_pb2.ShellArgs, _Mapping]] = ..., background_shell_spawn_args: _Optional[_Union[_exec_kinds_pb2.BackgroundShellSpawnArgs, _Mapping]] = ..., list_mcp_resources_exec_args: _Optional[_Union[_exec_kinds_pb2.ListMcpResourcesExecArgs, _Mapping]] = ..., read_mcp_resource_exec_args: _Optional[_Union[_exec_kinds_pb2.ReadMcpResourceExecArgs, _Mapping]] = ..., fetch_args: _Optional[_Union[_exec_kinds_pb2.FetchArgs, _Mapping]] = ..., record_screen_args: _Optional[_Union[_exec_kinds_pb2.RecordScreenArgs, _Mapping]] = ..., computer_use_args: _Optional[_Union[_exec_kinds_pb2.ComputerUseArgs, _Mapping]] = ..., write_shell_stdin_args: _Optional[_Union[_exec_kinds_pb2.WriteShellStdinArgs, _Mapping]] = ..., execute_hook_args: _Optional[_Union[_exec_kinds_pb2.ExecuteHookArgs, _Mapping]] = ..., subagent_args: _Optional[_Union[_exec_kinds_pb2.SubagentArgs, _Mapping]] = ..., redacted_read_args: _Optional[_Union[_exec_kinds_pb2.ReadArgs, _Mapping]] = ..., force_background_shell_args: _Optional[_Union[_exec_kinds_pb2.ForceBackgroundShellArgs, _Mapping]] = ..., force_background_subagent_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., mcp_state_exec_args: _Optional[_Union[_exec_kinds_pb2.McpStateExecArgs, _Mapping]] = ..., subagent_await_args: _Optional[_Union[_exec_kinds_pb2.SubagentAwaitArgs, _Mapping]] = ..., smart_mode_classifier_args: _Optional[_Union[_exec_kinds_pb2.SmartModeClassifierArgs, _Mapping]] = ..., canvas_diagnostics_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., shell_allowlist_precheck_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., mcp_allowlist_precheck_args: _Optional[_Union[_exec_kinds_pb2.McpAllowlistPrecheckArgs, _Mapping]] = ..., web_fetch_allowlist_precheck_args: _Optional[_Union[_exec_kinds_pb2.WebFetchAllowlistPrecheckArgs, _Mapping]] = ..., git_diff_request: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_read_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_bash_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_edit_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_write_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_grep_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_find_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_ls_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., mini_swe_agent_bash_args: _Optional[_Union[_exec_kinds_pb2.ShellArgs, _Mapping]] = ..., conversation_search_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., agent_store_conflict_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., adopt_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., exec_id: _Optional[str] = ..., span_context: _Optional[_Union[_shared_pb2.SpanContext, _Mapping]] = ..., accept_hook_additional_contexts: _Optional[bool] = ..., machine_id: _Optional[str] = ...) -> None: ...

class ExecClientMessage(_message.Message):
    __slots__ = ("id", "shell_result", "write_result", "delete_result", "grep_result", "read_result", "ls_result", "diagnostics_result", "request_context_result", "mcp_result", "shell_stream", "background_shell_spawn_result", "list_mcp_resources_exec_result", "read_mcp_resource_exec_result", "fetch_result", "record_screen_result", "computer_use_result", "write_shell_stdin_result", "execute_hook_result", "subagent_result", "redacted_read_result", "force_background_shell_result", "force_background_subagent_result", "mcp_state_exec_result", "subagent_await_result", "smart_mode_classifier_result", "canvas_diagnostics_result", "shell_allowlist_precheck_result", "mcp_allowlist_precheck_result", "web_fetch_allowlist_precheck_result", "git_diff_response", "pi_read_result", "pi_bash_result", "pi_edit_result", "pi_write_result", "pi_grep_result", "pi_find_result", "pi_ls_result", "conversation_search_result", "agent_store_conflict_result", "mini_swe_agent_bash_result", "adopt_result", "exec_id", "local_execution_time_ms", "hook_additional_contexts")
    ID_FIELD_NUMBER: _ClassVar[int]
    SHELL_RESULT_FIELD_NUMBER: _ClassVar[int]
    WRITE_RESULT_FIELD_NUMBER: _ClassVar[int]
    DELETE_RESULT_FIELD_NUMBER: _ClassVar[int]
    GREP_RESULT_FIELD_NUMBER: _ClassVar[int]
    READ_RESULT_FIELD_NUMBER: _ClassVar[int]
    LS_RESULT_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_RESULT_FIELD_NUMBER: _ClassVar[int]
    REQUEST_CONTEXT_RESULT_FIELD_NUMBER: _ClassVar[int]
    MCP_RESULT_FIELD_NUMBER: _ClassVar[int]
    SHELL_STREAM_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_SHELL_SPAWN_RESULT_FIELD_NUMBER: _ClassVar[int]
    LIST_MCP_RESOURCES_EXEC_RESULT_FIELD_NUMBER: _ClassVar[int]
    READ_MCP_RESOURCE_EXEC_RESULT_FIELD_NUMBER: _ClassVar[int]
    FETCH_RESULT_FIELD_NUMBER: _ClassVar[int]
    RECORD_SCREEN_RESULT_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_USE_RESULT_FIELD_NUMBER: _ClassVar[int]
    WRITE_SHELL_STDIN_RESULT_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_HOOK_RESULT_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_RESULT_FIELD_NUMBER: _ClassVar[int]
    REDACTED_READ_RESULT_FIELD_NUMBER: _ClassVar[int]
    FORCE_BACKGROUND_SHELL_RESULT_FIELD_NUMBER: _ClassVar[int]
    FORCE_BACKGROUND_SUBAGENT_RESULT_FIELD_NUMBER: _ClassVar[int]
    MCP_STATE_EXEC_RESULT_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_AWAIT_RESULT_FIELD_NUMBER: _ClassVar[int]
    SMART_MODE_CLASSIFIER_RESULT_FIELD_NUMBER: _ClassVar[int]
    CANVAS_DIAGNOSTICS_RESULT_FIELD_NUMBER: _ClassVar[int]
    SHELL_ALLOWLIST_PRECHECK_RESULT_FIELD_NUMBER: _ClassVar[int]
    MCP_ALLOWLIST_PRECHECK_RESULT_FIELD_NUMBER: _ClassVar[int]
    WEB_FETCH_ALLOWLIST_PRECHECK_RESULT_FIELD_NUMBER: _ClassVar[int]
    GIT_DIFF_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    PI_READ_RESULT_FIELD_NUMBER: _ClassVar[int]
    PI_BASH_RESULT_FIELD_NUMBER: _ClassVar[int]
    PI_EDIT_RESULT_FIELD_NUMBER: _ClassVar[int]
    PI_WRITE_RESULT_FIELD_NUMBER: _ClassVar[int]
    PI_GREP_RESULT_FIELD_NUMBER: _ClassVar[int]
    PI_FIND_RESULT_FIELD_NUMBER: _ClassVar[int]
    PI_LS_RESULT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_SEARCH_RESULT_FIELD_NUMBER: _ClassVar[int]
    AGENT_STORE_CONFLICT_RESULT_FIELD_NUMBER: _ClassVar[int]
    MINI_SWE_AGENT_BASH_RESULT_FIELD_NUMBER: _ClassVar[int]
    ADOPT_RESULT_FIELD_NUMBER: _ClassVar[int]
    EXEC_ID_FIELD_NUMBER: _ClassVar[int]
    LOCAL_EXECUTION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    HOOK_ADDITIONAL_CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    id: int
    shell_result: _exec_kinds_pb2.ShellResult
    write_result: _exec_kinds_pb2.WriteResult
    delete_result: _exec_kinds_pb2.DeleteResult
    grep_result: _exec_kinds_pb2.GrepResult
    read_result: _exec_kinds_pb2.ReadResult
    ls_result: _exec_kinds_pb2.LsResult
    diagnostics_result: _exec_kinds_pb2.DiagnosticsResult
    request_context_result: _context_pb2.RequestContextResult
    mcp_result: _exec_kinds_pb2.McpResult
    shell_stream: _exec_kinds_pb2.ShellStream
    background_shell_spawn_result: _exec_kinds_pb2.BackgroundShellSpawnResult
    list_mcp_resources_exec_result: _exec_kinds_pb2.ListMcpResourcesExecResult
    read_mcp_resource_exec_result: _exec_kinds_pb2.ReadMcpResourceExecResult
    fetch_result: _exec_kinds_pb2.FetchResult
    record_screen_result: _exec_kinds_pb2.RecordScreenResult
    computer_use_result: _exec_kinds_pb2.ComputerUseResult
    write_shell_stdin_result: _exec_kinds_pb2.WriteShellStdinResult
    execute_hook_result: _exec_kinds_pb2.ExecuteHookResult
    subagent_result: _exec_kinds_pb2.SubagentResult
    redacted_read_result: _exec_kinds_pb2.ReadResult
    force_background_shell_result: _exec_kinds_pb2.ForceBackgroundShellResult
    force_background_subagent_result: ForceBackgroundSubagentResult
    mcp_state_exec_result: _exec_kinds_pb2.McpStateExecResult
    subagent_await_result: _exec_kinds_pb2.SubagentAwaitResult
    smart_mode_classifier_result: _exec_kinds_pb2.SmartModeClassifierResult
    canvas_diagnostics_result: _shared_pb2.Opaque
    shell_allowlist_precheck_result: ShellAllowlistPrecheckResult
    mcp_allowlist_precheck_result: _exec_kinds_pb2.McpAllowlistPrecheckResult
    web_fetch_allowlist_precheck_result: _exec_kinds_pb2.WebFetchAllowlistPrecheckResult
    git_diff_response: _shared_pb2.Opaque
    pi_read_result: _exec_kinds_pb2.PiResult
    pi_bash_result: _exec_kinds_pb2.PiResult
    pi_edit_result: _exec_kinds_pb2.PiResult
    pi_write_result: _exec_kinds_pb2.PiResult
    pi_grep_result: _exec_kinds_pb2.PiResult
    pi_find_result: _exec_kinds_pb2.PiResult
    pi_ls_result: _exec_kinds_pb2.PiResult
    conversation_search_result: _shared_pb2.Opaque
    agent_store_conflict_result: _shared_pb2.Opaque
    mini_swe_agent_bash_result: _exec_kinds_pb2.ShellResult
    adopt_result: _shared_pb2.Opaque
    exec_id: str
    local_execution_time_ms: int
    hook_additional_contexts: _containers.RepeatedCompositeFieldContainer[_shared_pb2.HookAdditionalContext]
    def __init__(self, id: _Optional[int] = ..., shell_result: _Optional[_Union[_exec_kinds_pb2.ShellResult, _Mapping]] = ..., write_result: _Optional[_Union[_exec_kinds_pb2.WriteResult, _Mapping]] = ..., delete_result: _Optional[_Union[_exec_kinds_pb2.DeleteResult, _Mapping]] = ..., grep_result: _Optional[_Union[_exec_kinds_pb2.GrepResult, _Mapping]] = ..., read_result: _Optional[_Union[_exec_kinds_pb2.ReadResult, _Mapping]] = ..., ls_result: _Optional[_Union[_exec_kinds_pb2.LsResult, _Mapping]] = ..., diagnostics_result: _Optional[_Union[_exec_kinds_pb2.DiagnosticsResult, _Mapping]] = ..., request_context_result: _Optional[_Union[_context_pb2.RequestContextResult, _Mapping]] = ..., mcp_result: _Optional[_Union[_exec_kinds_pb2.McpResult, _Mapping]] = ..., shell_stream: _Optional[_Union[_exec_kinds_pb2.ShellStream, _Mapping]] = ..., background_shell_spawn_result: _Optional[_Union[_exec_kinds_pb2.BackgroundShellSpawnResult, _Mapping]] = ..., list_mcp_resources_exec_result: _Optional[_Union[_exec_kinds_pb2.ListMcpResourcesExecResult, _Mapping]] = ..., read_mcp_resource_exec_result: _Optional[_Union[_exec_kinds_pb2.ReadMcpResourceExecResult, _Mapping]] = ..., fetch_result: _Optional[_Union[_exec_kinds_pb2.FetchResult, _Mapping]] = ..., record_screen_result: _Optional[_Union[_exec_kinds_pb2.RecordScreenResult, _Mapping]] = ..., computer_use_result: _Optional[_Union[_exec_kinds_pb2.ComputerUseResult, _Mapping]] = ..., write_shell_stdin_result: _Optional[_Union[_exec_kinds_pb2.WriteShellStdinResult, _Mapping]] = ..., execute_hook_result: _Optional[_Union[_exec_kinds_pb2.ExecuteHookResult, _Mapping]] = ..., subagent_result: _Optional[_Union[_exec_kinds_pb2.SubagentResult, _Mapping]] = ..., redacted_read_result: _Optional[_Union[_exec_kinds_pb2.ReadResult, _Mapping]] = ..., force_background_shell_result: _Optional[_Union[_exec_kinds_pb2.ForceBackgroundShellResult, _Mapping]] = ..., force_background_subagent_result: _Optional[_Union[ForceBackgroundSubagentResult, _Mapping]] = ..., mcp_state_exec_result: _Optional[_Union[_exec_kinds_pb2.McpStateExecResult, _Mapping]] = ..., subagent_await_result: _Optional[_Union[_exec_kinds_pb2.SubagentAwaitResult, _Mapping]] = ..., smart_mode_classifier_result: _Optional[_Union[_exec_kinds_pb2.SmartModeClassifierResult, _Mapping]] = ..., canvas_diagnostics_result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., shell_allowlist_precheck_result: _Optional[_Union[ShellAllowlistPrecheckResult, _Mapping]] = ..., mcp_allowlist_precheck_result: _Optional[_Union[_exec_kinds_pb2.McpAllowlistPrecheckResult, _Mapping]] = ..., web_fetch_allowlist_precheck_result: _Optional[_Union[_exec_kinds_pb2.WebFetchAllowlistPrecheckResult, _Mapping]] = ..., git_diff_response: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_read_result: _Optional[_Union[_exec_kinds_pb2.PiResult, _Mapping]] = ..., pi_bash_result: _Optional[_Union[_exec_kinds_pb2.PiResult, _Mapping]] = ..., pi_edit_result: _Optional[_Union[_exec_kinds_pb2.PiResult, _Mapping]] = ..., pi_write_result: _Optional[_Union[_exec_kinds_pb2.PiResult, _Mapping]] = ..., pi_grep_result: _Optional[_Union[_exec_kinds_pb2.PiResult, _Mapping]] = ..., pi_find_result: _Optional[_Union[_exec_kinds_pb2.PiResult, _Mapping]] = ..., pi_ls_result: _Optional[_Union[_exec_kinds_pb2.PiResult, _Mapping]] = ..., conversation_search_result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., agent_store_conflict_result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., mini_swe_agent_bash_result: _Optional[_Union[_exec_kinds_pb2.ShellResult, _Mapping]] = ..., adopt_result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., exec_id: _Optional[str] = ..., local_execution_time_ms: _Optional[int] = ..., hook_additional_contexts: _Optional[_Iterable[_Union[_shared_pb2.HookAdditionalContext, _Mapping]]] = ...) -> None: ...

class ExecClientControlMessage(_message.Message):
    __slots__ = ("stream_close", "throw", "heartbeat")
    STREAM_CLOSE_FIELD_NUMBER: _ClassVar[int]
    THROW_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    stream_close: ExecClientStreamClose
    throw: ExecClientThrow
    heartbeat: ExecClientHeartbeat
    def __init__(self, stream_close: _Optional[_Union[ExecClientStreamClose, _Mapping]] = ..., throw: _Optional[_Union[ExecClientThrow, _Mapping]] = ..., heartbeat: _Optional[_Union[ExecClientHeartbeat, _Mapping]] = ...) -> None: ...

class ExecClientStreamClose(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ExecClientThrow(_message.Message):
    __slots__ = ("id", "error", "stack_trace", "error_code")
    ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STACK_TRACE_FIELD_NUMBER: _ClassVar[int]
    ERROR_CODE_FIELD_NUMBER: _ClassVar[int]
    id: int
    error: str
    stack_trace: str
    error_code: str
    def __init__(self, id: _Optional[int] = ..., error: _Optional[str] = ..., stack_trace: _Optional[str] = ..., error_code: _Optional[str] = ...) -> None: ...

class ExecClientHeartbeat(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ExecServerControlMessage(_message.Message):
    __slots__ = ("abort",)
    ABORT_FIELD_NUMBER: _ClassVar[int]
    abort: ExecServerAbort
    def __init__(self, abort: _Optional[_Union[ExecServerAbort, _Mapping]] = ...) -> None: ...

class ExecServerAbort(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: int
    def __init__(self, id: _Optional[int] = ...) -> None: ...

class ForceBackgroundSubagentResult(_message.Message):
    __slots__ = ("status",)
    STATUS_FIELD_NUMBER: _ClassVar[int]
    status: int
    def __init__(self, status: _Optional[int] = ...) -> None: ...

class ShellAllowlistPrecheckResult(_message.Message):
    __slots__ = ("allowlisted",)
    ALLOWLISTED_FIELD_NUMBER: _ClassVar[int]
    allowlisted: bool
    def __init__(self, allowlisted: _Optional[bool] = ...) -> None: ...
