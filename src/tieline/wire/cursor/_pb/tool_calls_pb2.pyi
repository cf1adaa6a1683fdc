from tieline.wire.cursor._pb import context_pb2 as _context_pb2
from tieline.wire.cursor._pb import exec_kinds_pb2 as _exec_kinds_pb2
from tieline.wire.cursor._pb import queries_pb2 as _queries_pb2
from tieline.wire.cursor._pb import shared_pb2 as _shared_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ToolCall(_message.Message):
    __slots__ = ("shell_tool_call", "delete_tool_call", "glob_tool_call", "grep_tool_call", "read_tool_call", "update_todos_tool_call", "read_todos_tool_call", "edit_tool_call", "ls_tool_call", "read_lints_tool_call", "mcp_tool_call", "sem_search_tool_call", "create_plan_tool_call", "web_search_tool_call", "task_tool_call", "list_mcp_resources_tool_call", "read_mcp_resource_tool_call", "apply_agent_diff_tool_call", "ask_question_tool_call", "fetch_tool_call", "switch_mode_tool_call", "generate_image_tool_call", "record_screen_tool_call", "computer_use_tool_call", "write_shell_stdin_tool_call", "reflect_tool_call", "setup_vm_environment_tool_call", "truncated_tool_call", "start_grind_execution_tool_call", "start_grind_planning_tool_call", "web_fetch_tool_call", "report_bugfix_results_tool_call", "ai_attribution_tool_call", "pr_management_tool_call", "mcp_auth_tool_call", "await_tool_call", "blame_by_file_path_tool_call", "get_mcp_tools_tool_call", "report_bug_tool_call", "set_active_branch_tool_call", "communicate_update_tool_call", "send_final_summary_tool_call", "update_pr_code_tour_tool_call", "replace_env_tool_call", "edit_pr_labels_tool_call", "record_ci_investigation_findings_tool_call", "send_message_tool_call", "fetch_cloud_agent_data_tool_call", "send_to_user_tool_call", "pi_read_tool_call", "pi_bash_tool_call", "pi_edit_tool_call", "pi_write_tool_call", "pi_grep_tool_call", "pi_find_tool_call", "pi_ls_tool_call", "connect_scm_tool_call", "search_conversations_tool_call", "create_goal_tool_call", "update_goal_tool_call", "adopt_tool_call", "get_agent_status_tool_call", "send_to_agent_tool_call", "read_agent_transcript_tool_call", "create_agent_tool_call", "stop_agent_tool_call", "get_pr_code_tour_tool_call", "hook_additional_contexts", "tool_call_id", "started_at_ms", "completed_at_ms")
    SHELL_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    DELETE_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    GLOB_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    GREP_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    READ_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_TODOS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    READ_TODOS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    EDIT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    LS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    READ_LINTS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    MCP_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    SEM_SEARCH_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    CREATE_PLAN_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    TASK_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    LIST_MCP_RESOURCES_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    READ_MCP_RESOURCE_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    APPLY_AGENT_DIFF_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    ASK_QUESTION_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    FETCH_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    SWITCH_MODE_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    GENERATE_IMAGE_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    RECORD_SCREEN_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_USE_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    WRITE_SHELL_STDIN_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    REFLECT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    SETUP_VM_ENVIRONMENT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    START_GRIND_EXECUTION_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    START_GRIND_PLANNING_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    WEB_FETCH_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    REPORT_BUGFIX_RESULTS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    AI_ATTRIBUTION_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    PR_MANAGEMENT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    MCP_AUTH_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    AWAIT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    BLAME_BY_FILE_PATH_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    GET_MCP_TOOLS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    REPORT_BUG_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    SET_ACTIVE_BRANCH_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    COMMUNICATE_UPDATE_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    SEND_FINAL_SUMMARY_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_PR_CODE_TOUR_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ENV_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    EDIT_PR_LABELS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    RECORD_CI_INVESTIGATION_FINDINGS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    SEND_MESSAGE_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    FETCH_CLOUD_AGENT_DATA_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    SEND_TO_USER_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    PI_READ_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    PI_BASH_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    PI_EDIT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    PI_WRITE_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    PI_GREP_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    PI_FIND_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    PI_LS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    CONNECT_SCM_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    SEARCH_CONVERSATIONS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    CREATE_GOAL_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    UPDATE_GOAL_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    ADOPT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    GET_AGENT_STATUS_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    SEND_TO_AGENT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    READ_AGENT_TRANSCRIPT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    CREATE_AGENT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    STOP_AGENT_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    GET_PR_CODE_TOUR_TOOL_CALL_FIELD_NUMBER: _ClassVar[int]
    HOOK_ADDITIONAL_CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    shell_tool_call: ShellToolCall
    delete_tool_call: DeleteToolCall
    glob_tool_call: GlobToolCall
    grep_tool_call: GrepToolCall
    read_tool_call: ReadToolCall
    update_todos_tool_call: UpdateTodosToolCall
    read_todos_tool_call: _shared_pb2.Opaque
    edit_tool_call: EditToolCall
    ls_tool_call: LsToolCall
    read_lints_tool_call: _shared_pb2.Opaque
    mcp_tool_call: McpToolCall
    sem_search_tool_call: _shared_pb2.Opaque
    create_plan_tool_call: _shared_pb2.Opaque
    web_search_tool_call: WebSearchToolCall
    task_tool_call: TaskToolCall
    list_mcp_resources_tool_call: _shared_pb2.Opaque
    read_mcp_resource_tool_call: _shared_pb2.Opaque
    apply_agent_diff_tool_call: _shared_pb2.Opaque
    ask_question_tool_call: _shared_pb2.Opaque
    fetch_tool_call: FetchToolCall
    switch_mode_tool_call: _shared_pb2.Opaque
    generate_image_tool_call: _shared_pb2.Opaque
    record_screen_tool_call: _shared_pb2.Opaque
    computer_use_tool_call: _shared_pb2.Opaque
    write_shell_stdin_tool_call: _shared_pb2.Opaque
    reflect_tool_call: _shared_pb2.Opaque
    setup_vm_environment_tool_call: _shared_pb2.Opaque
    truncated_tool_call: TruncatedToolCall
    start_grind_execution_tool_call: _shared_pb2.Opaque
    start_grind_planning_tool_call: _shared_pb2.Opaque
    web_fetch_tool_call: WebFetchToolCall
    report_bugfix_results_tool_call: _shared_pb2.Opaque
    ai_attribution_tool_call: _shared_pb2.Opaque
    pr_management_tool_call: _shared_pb2.Opaque
    mcp_auth_tool_call: _shared_pb2.Opaque
    await_tool_call: _shared_pb2.Opaque
    blame_by_file_path_tool_call: _shared_pb2.Opaque
    get_mcp_tools_tool_call: _shared_pb2.Opaque
    report_bug_tool_call: _shared_pb2.Opaque
    set_active_branch_tool_call: _shared_pb2.Opaque
    communicate_update_tool_call: _shared_pb2.Opaque
    send_final_summary_tool_call: _shared_pb2.Opaque
    update_pr_code_tour_tool_call: _shared_pb2.Opaque
    replace_env_tool_call: _shared_pb2.Opaque
    edit_pr_labels_tool_call: _shared_pb2.Opaque
    record_ci_investigation_findings_tool_call: _shared_pb2.Opaque
    send_message_tool_call: _shared_pb2.Opaque
    fetch_cloud_agent_data_tool_call: _shared_pb2.Opaque
    send_to_user_tool_call: _shared_pb2.Opaque
    pi_read_tool_call: _shared_pb2.Opaque
    pi_bash_tool_call: _shared_pb2.Opaque
    pi_edit_tool_call: _shared_pb2.Opaque
    pi_write_tool_call: _shared_pb2.Opaque
    pi_grep_tool_call: _shared_pb2.Opaque
    pi_find_tool_call: _shared_pb2.Opaque
    pi_ls_tool_call: _shared_pb2.Opaque
    connect_scm_tool_call: _shared_pb2.Opaque
    search_conversations_tool_call: _shared_pb2.Opaque
    create_goal_tool_call: _shared_pb2.Opaque
    update_goal_tool_call: _shared_pb2.Opaque
    adopt_tool_call: _shared_pb2.Opaque
    get_agent_status_tool_call: _shared_pb2.Opaque
    send_to_agent_tool_call: _shared_pb2.Opaque
    read_agent_transcript_tool_call: _shared_pb2.Opaque
    create_agent_tool_call: _shared_pb2.Opaque
    stop_agent_tool_call: _shared_pb2.Opaque
    get_pr_code_tour_tool_call: _shared_pb2.Opaque
    hook_additional_contexts: _containers.RepeatedCompositeFieldContainer[_shared_pb2.HookAdditionalContext]
    tool_call_id: str
    started_at_ms: int
    completed_at_ms: int
    def __init__(self, shell_tool_call: _Optional[_Union[ShellToolCall, _Mapping]] = ..., delete_tool_call: _Optional[_Union[DeleteToolCall, _Mapping]] = ..., glob_tool_call: _Optional[_Union[GlobToolCall, _Mapping]] = ..., grep_tool_call: _Optional[_Union[GrepToolCall, _Mapping]] = ..., read_tool_call: _Optional[_Union[ReadToolCall, _Mapping]] = ..., update_todos_tool_call: _Optional[_Union[UpdateTodosToolCall, _Mapping]] = ..., read_todos_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., edit_tool_call: _Optional[_Union[EditToolCall, _Mapping]] = ..., ls_tool_call: _Optional[_Union[LsToolCall, _Mapping]] = ..., read_lints_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., mcp_tool_call: _Optional[_Union[McpToolCall, _Mapping]] = ..., sem_search_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., create_plan_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., web_search_tool_call: _Optional[_Union[WebSearchToolCall, _Mapping]] = ..., task_tool_call: _Optional[_Union[TaskToolCall, _Mapping]] = ..., list_mcp_resources_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., read_mcp_resource_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., apply_agent_diff_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., ask_question_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., fetch_tool_call: _Optional[_Union[FetchToolCall, _Mapping]] = ..., switch_mode_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., generate_image_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., record_screen_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., computer_use_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., write_shell_stdin_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., reflect_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., setup_vm_environment_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., truncated_tool_call: _Optional[_Union[TruncatedToolCall, _Mapping]] = ..., start_grind_execution_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., start_grind_planning_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., web_fetch_tool_call: _Optional[_Union[WebFetchToolCall, _Mapping]] = ..., report_bugfix_results_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., ai_attribution_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pr_management_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., mcp_auth_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., await_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., blame_by_file_path_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., get_mcp_tools_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., report_bug_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., set_active_branch_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., communicate_update_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., send_final_summary_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., update_pr_code_tour_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., replace_env_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., edit_pr_labels_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., record_ci_investigation_findings_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., send_message_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., fetch_cloud_agent_data_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., send_to_user_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_read_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_bash_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_edit_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_write_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_grep_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_find_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pi_ls_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., connect_scm_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., search_conversations_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., create_goal_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., update_goal_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., adopt_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., get_agent_status_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., send_to_agent_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., read_agent_transcript_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., create_agent_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., stop_agent_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., get_pr_code_tour_tool_call: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., hook_additional_contexts: _Optional[_Iterable[_Union[_shared_pb2.HookAdditionalContext, _Mapping]]] = ..., tool_call_id: _Optional[str] = ..., started_at_ms: _Optional[int] = ..., completed_at_ms: _Optional[int] = ...) -> None: ...

class ShellToolCall(_message.Message):
    __slots__ = ("args", "result", "description")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    args: _exec_kinds_pb2.ShellArgs
    result: _exec_kinds_pb2.ShellResult
    description: str
    def __init__(self, args: _Optional[_Union[_exec_kinds_pb2.ShellArgs, _Mapping]] = ..., result: _Optional[_Union[_exec_kinds_pb2.ShellResult, _Mapping]] = ..., description: _Optional[str] = ...) -> None: ...

class McpToolCall(_message.Message):
    __slots__ = ("args", "result", "description")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    args: _exec_kinds_pb2.McpArgs
    result: McpToolResult
    description: str
    def __init__(self, args: _Optional[_Union[_exec_kinds_pb2.McpArgs, _Mapping]] = ..., result: _Optional[_Union[McpToolResult, _Mapping]] = ..., description: _Optional[str] = ...) -> None: ...

class McpToolResult(_message.Message):
    __slots__ = ("success", "error", "rejected", "permission_denied")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    success: _exec_kinds_pb2.McpSuccess
    error: McpToolError
    rejected: _exec_kinds_pb2.McpRejected
    permission_denied: _exec_kinds_pb2.McpPermissionDenied
    def __init__(self, success: _Optional[_Union[_exec_kinds_pb2.McpSuccess, _Mapping]] = ..., error: _Optional[_Union[McpToolError, _Mapping]] = ..., rejected: _Optional[_Union[_exec_kinds_pb2.McpRejected, _Mapping]] = ..., permission_denied: _Optional[_Union[_exec_kinds_pb2.McpPermissionDenied, _Mapping]] = ...) -> None: ...

class McpToolError(_message.Message):
    __slots__ = ("error", "read_tool_def_reminder")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    READ_TOOL_DEF_REMINDER_FIELD_NUMBER: _ClassVar[int]
    error: str
    read_tool_def_reminder: str
    def __init__(self, error: _Optional[str] = ..., read_tool_def_reminder: _Optional[str] = ...) -> None: ...

class ReadToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: ReadToolArgs
    result: ReadToolResult
    def __init__(self, args: _Optional[_Union[ReadToolArgs, _Mapping]] = ..., result: _Optional[_Union[ReadToolResult, _Mapping]] = ...) -> None: ...

class ReadToolArgs(_message.Message):
    __slots__ = ("path", "offset", "limit", "include_line_numbers")
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_LINE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    path: str
    offset: int
    limit: int
    include_line_numbers: bool
    def __init__(self, path: _Optional[str] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ..., include_line_numbers: _Optional[bool] = ...) -> None: ...

class ReadToolResult(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: ReadToolSuccess
    error: _shared_pb2.Opaque
    def __init__(self, success: _Optional[_Union[ReadToolSuccess, _Mapping]] = ..., error: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class ReadToolSuccess(_message.Message):
    __slots__ = ("content", "data", "data_blob_id", "content_blob_id", "is_empty", "exceeded_limit", "total_lines", "file_size", "path", "read_range", "include_line_numbers", "related_cursor_rule_paths", "related_cursor_rules")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DATA_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    IS_EMPTY_FIELD_NUMBER: _ClassVar[int]
    EXCEEDED_LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LINES_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    READ_RANGE_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_LINE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    RELATED_CURSOR_RULE_PATHS_FIELD_NUMBER: _ClassVar[int]
    RELATED_CURSOR_RULES_FIELD_NUMBER: _ClassVar[int]
    content: str
    data: bytes
    data_blob_id: bytes
    content_blob_id: bytes
    is_empty: bool
    exceeded_limit: bool
    total_lines: int
    file_size: int
    path: str
    read_range: _shared_pb2.Opaque
    include_line_numbers: bool
    related_cursor_rule_paths: _containers.RepeatedScalarFieldContainer[str]
    related_cursor_rules: _containers.RepeatedCompositeFieldContainer[_context_pb2.CursorRule]
    def __init__(self, content: _Optional[str] = ..., data: _Optional[bytes] = ..., data_blob_id: _Optional[bytes] = ..., content_blob_id: _Optional[bytes] = ..., is_empty: _Optional[bool] = ..., exceeded_limit: _Optional[bool] = ..., total_lines: _Optional[int] = ..., file_size: _Optional[int] = ..., path: _Optional[str] = ..., read_range: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., include_line_numbers: _Optional[bool] = ..., related_cursor_rule_paths: _Optional[_Iterable[str]] = ..., related_cursor_rules: _Optional[_Iterable[_Union[_context_pb2.CursorRule, _Mapping]]] = ...) -> None: ...

class EditToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: EditArgs
    result: EditResult
    def __init__(self, args: _Optional[_Union[EditArgs, _Mapping]] = ..., result: _Optional[_Union[EditResult, _Mapping]] = ...) -> None: ...

class EditArgs(_message.Message):
    __slots__ = ("path", "stream_content")
    PATH_FIELD_NUMBER: _ClassVar[int]
    STREAM_CONTENT_FIELD_NUMBER: _ClassVar[int]
    path: str
    stream_content: str
    def __init__(self, path: _Optional[str] = ..., stream_content: _Optional[str] = ...) -> None: ...

class EditResult(_message.Message):
    __slots__ = ("success", "file_not_found", "read_permission_denied", "write_permission_denied", "rejected", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FILE_NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    READ_PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    WRITE_PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: EditSuccess
    file_not_found: _shared_pb2.Opaque
    read_permission_denied: _shared_pb2.Opaque
    write_permission_denied: _shared_pb2.Opaque
    rejected: _shared_pb2.Opaque
    error: _shared_pb2.Opaque
    def __init__(self, success: _Optional[_Union[EditSuccess, _Mapping]] = ..., file_not_found: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., read_permission_denied: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., write_permission_denied: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., rejected: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., error: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class EditSuccess(_message.Message):
    __slots__ = ("path", "lines_added", "lines_removed", "diff_string", "before_full_file_content", "after_full_file_content", "message")
    PATH_FIELD_NUMBER: _ClassVar[int]
    LINES_ADDED_FIELD_NUMBER: _ClassVar[int]
    LINES_REMOVED_FIELD_NUMBER: _ClassVar[int]
    DIFF_STRING_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FULL_FILE_CONTENT_FIELD_NUMBER: _ClassVar[int]
    AFTER_FULL_FILE_CONTENT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    path: str
    lines_added: int
    lines_removed: int
    diff_string: str
    before_full_file_content: str
    after_full_file_content: str
    message: str
    def __init__(self, path: _Optional[str] = ..., lines_added: _Optional[int] = ..., lines_removed: _Optional[int] = ..., diff_string: _Optional[str] = ..., before_full_file_content: _Optional[str] = ..., after_full_file_content: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class GlobToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: GlobToolArgs
    result: _shared_pb2.Opaque
    def __init__(self, args: _Optional[_Union[GlobToolArgs, _Mapping]] = ..., result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class GlobToolArgs(_message.Message):
    __slots__ = ("target_directory", "glob_pattern")
    TARGET_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    GLOB_PATTERN_FIELD_NUMBER: _ClassVar[int]
    target_directory: str
    glob_pattern: str
    def __init__(self, target_directory: _Optional[str] = ..., glob_pattern: _Optional[str] = ...) -> None: ...

class GlobToolSuccess(_message.Message):
    __slots__ = ("pattern", "path", "files", "total_files", "client_truncated", "ripgrep_truncated")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FILES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    RIPGREP_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    path: str
    files: _containers.RepeatedScalarFieldContainer[str]
    total_files: int
    client_truncated: bool
    ripgrep_truncated: bool
    def __init__(self, pattern: _Optional[str] = ..., path: _Optional[str] = ..., files: _Optional[_Iterable[str]] = ..., total_files: _Optional[int] = ..., client_truncated: _Optional[bool] = ..., ripgrep_truncated: _Optional[bool] = ...) -> None: ...

class GrepToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: _exec_kinds_pb2.GrepArgs
    result: _exec_kinds_pb2.GrepResult
    def __init__(self, args: _Optional[_Union[_exec_kinds_pb2.GrepArgs, _Mapping]] = ..., result: _Optional[_Union[_exec_kinds_pb2.GrepResult, _Mapping]] = ...) -> None: ...

class LsToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: _exec_kinds_pb2.LsArgs
    result: _exec_kinds_pb2.LsResult
    def __init__(self, args: _Optional[_Union[_exec_kinds_pb2.LsArgs, _Mapping]] = ..., result: _Optional[_Union[_exec_kinds_pb2.LsResult, _Mapping]] = ...) -> None: ...

class DeleteToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: _exec_kinds_pb2.DeleteArgs
    result: _exec_kinds_pb2.DeleteResult
    def __init__(self, args: _Optional[_Union[_exec_kinds_pb2.DeleteArgs, _Mapping]] = ..., result: _Optional[_Union[_exec_kinds_pb2.DeleteResult, _Mapping]] = ...) -> None: ...

class FetchToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: _exec_kinds_pb2.FetchArgs
    result: _exec_kinds_pb2.FetchResult
    def __init__(self, args: _Optional[_Union[_exec_kinds_pb2.FetchArgs, _Mapping]] = ..., result: _Optional[_Union[_exec_kinds_pb2.FetchResult, _Mapping]] = ...) -> None: ...

class UpdateTodosToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: UpdateTodosArgs
    result: UpdateTodosResult
    def __init__(self, args: _Optional[_Union[UpdateTodosArgs, _Mapping]] = ..., result: _Optional[_Union[UpdateTodosResult, _Mapping]] = ...) -> None: ...

class UpdateTodosArgs(_message.Message):
    __slots__ = ("todos", "merge")
    TODOS_FIELD_NUMBER: _ClassVar[int]
    MERGE_FIELD_NUMBER: _ClassVar[int]
    todos: _containers.RepeatedCompositeFieldContainer[_shared_pb2.TodoItem]
    merge: bool
    def __init__(self, todos: _Optional[_Iterable[_Union[_shared_pb2.TodoItem, _Mapping]]] = ..., merge: _Optional[bool] = ...) -> None: ...

class UpdateTodosResult(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: UpdateTodosSuccess
    error: _shared_pb2.Opaque
    def __init__(self, success: _Optional[_Union[UpdateTodosSuccess, _Mapping]] = ..., error: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class UpdateTodosSuccess(_message.Message):
    __slots__ = ("todos", "total_count", "was_merge")
    TODOS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COUNT_FIELD_NUMBER: _ClassVar[int]
    WAS_MERGE_FIELD_NUMBER: _ClassVar[int]
    todos: _containers.RepeatedCompositeFieldContainer[_shared_pb2.TodoItem]
    total_count: int
    was_merge: bool
    def __init__(self, todos: _Optional[_Iterable[_Union[_shared_pb2.TodoItem, _Mapping]]] = ..., total_count: _Optional[int] = ..., was_merge: _Optional[bool] = ...) -> None: ...

class TaskToolCall(_message.Message):
    __slots__ = ("args", "result", "cloud_agent_bc_id")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    CLOUD_AGENT_BC_ID_FIELD_NUMBER: _ClassVar[int]
    args: TaskArgs
    result: _shared_pb2.Opaque
    cloud_agent_bc_id: str
    def __init__(self, args: _Optional[_Union[TaskArgs, _Mapping]] = ..., result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., cloud_agent_bc_id: _Optional[str] = ...) -> None: ...

class TaskArgs(_message.Message):
    __slots__ = ("description", "prompt", "subagent_type", "model", "resume", "agent_id", "attachments", "mode", "responding_to_message_ids", "environment", "machine")
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ATTACHMENTS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    RESPONDING_TO_MESSAGE_IDS_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    description: str
    prompt: str
    subagent_type: _shared_pb2.Opaque
    model: str
    resume: str
    agent_id: str
    attachments: _containers.RepeatedScalarFieldContainer[str]
    mode: int
    responding_to_message_ids: _containers.RepeatedScalarFieldContainer[str]
    environment: int
    machine: _shared_pb2.Opaque
    def __init__(self, description: _Optional[str] = ..., prompt: _Optional[str] = ..., subagent_type: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., model: _Optional[str] = ..., resume: _Optional[str] = ..., agent_id: _Optional[str] = ..., attachments: _Optional[_Iterable[str]] = ..., mode: _Optional[int] = ..., responding_to_message_ids: _Optional[_Iterable[str]] = ..., environment: _Optional[int] = ..., machine: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class WebSearchToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: _queries_pb2.WebSearchArgs
    result: _queries_pb2.WebSearchResult
    def __init__(self, args: _Optional[_Union[_queries_pb2.WebSearchArgs, _Mapping]] = ..., result: _Optional[_Union[_queries_pb2.WebSearchResult, _Mapping]] = ...) -> None: ...

class WebFetchToolCall(_message.Message):
    __slots__ = ("args", "result")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    args: _queries_pb2.WebFetchArgs
    result: _shared_pb2.Opaque
    def __init__(self, args: _Optional[_Union[_queries_pb2.WebFetchArgs, _Mapping]] = ..., result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class TruncatedToolCall(_message.Message):
    __slots__ = ("original_step_blob_id", "args", "result")
    ORIGINAL_STEP_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    original_step_blob_id: bytes
    args: _shared_pb2.Opaque
    result: _shared_pb2.Opaque
    def __init__(self, original_step_blob_id: _Optional[bytes] = ..., args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...
