from tieline.wire.cursor._pb import shared_pb2 as _shared_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PiResult(_message.Message):
    __slots__ = ("success", "error")
    class Words(_message.Message):
        __slots__ = ("text",)
        TEXT_FIELD_NUMBER: _ClassVar[int]
        text: str
        def __init__(self, text: _Optional[str] = ...) -> None: ...
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: PiResult.Words
    error: PiResult.Words
    def __init__(self, success: _Optional[_Union[PiResult.Words, _Mapping]] = ..., error: _Optional[_Union[PiResult.Words, _Mapping]] = ...) -> None: ...

class ShellArgs(_message.Message):
    __slots__ = ("command", "working_directory", "timeout", "tool_call_id", "simple_commands", "has_input_redirect", "has_output_redirect", "parsing_result", "requested_sandbox_policy", "file_output_threshold_bytes", "is_background", "skip_approval", "timeout_behavior", "hard_timeout", "description", "classifier_result", "close_stdin", "output_notification", "smart_mode_approval", "hook_approval_requirement", "conversation_id", "admin_command_denylist", "request_id")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SIMPLE_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    HAS_INPUT_REDIRECT_FIELD_NUMBER: _ClassVar[int]
    HAS_OUTPUT_REDIRECT_FIELD_NUMBER: _ClassVar[int]
    PARSING_RESULT_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_SANDBOX_POLICY_FIELD_NUMBER: _ClassVar[int]
    FILE_OUTPUT_THRESHOLD_BYTES_FIELD_NUMBER: _ClassVar[int]
    IS_BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    SKIP_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_BEHAVIOR_FIELD_NUMBER: _ClassVar[int]
    HARD_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CLASSIFIER_RESULT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_STDIN_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NOTIFICATION_FIELD_NUMBER: _ClassVar[int]
    SMART_MODE_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    HOOK_APPROVAL_REQUIREMENT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    ADMIN_COMMAND_DENYLIST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    timeout: int
    tool_call_id: str
    simple_commands: _containers.RepeatedScalarFieldContainer[str]
    has_input_redirect: bool
    has_output_redirect: bool
    parsing_result: ShellCommandParsingResult
    requested_sandbox_policy: SandboxPolicy
    file_output_threshold_bytes: int
    is_background: bool
    skip_approval: bool
    timeout_behavior: _shared_pb2.TimeoutBehavior
    hard_timeout: int
    description: str
    classifier_result: _shared_pb2.Opaque
    close_stdin: bool
    output_notification: _shared_pb2.Opaque
    smart_mode_approval: _shared_pb2.SmartModeApproval
    hook_approval_requirement: _shared_pb2.Opaque
    conversation_id: str
    admin_command_denylist: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., timeout: _Optional[int] = ..., tool_call_id: _Optional[str] = ..., simple_commands: _Optional[_Iterable[str]] = ..., has_input_redirect: _Optional[bool] = ..., has_output_redirect: _Optional[bool] = ..., parsing_result: _Optional[_Union[ShellCommandParsingResult, _Mapping]] = ..., requested_sandbox_policy: _Optional[_Union[SandboxPolicy, _Mapping]] = ..., file_output_threshold_bytes: _Optional[int] = ..., is_background: _Optional[bool] = ..., skip_approval: _Optional[bool] = ..., timeout_behavior: _Optional[_Union[_shared_pb2.TimeoutBehavior, str]] = ..., hard_timeout: _Optional[int] = ..., description: _Optional[str] = ..., classifier_result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., close_stdin: _Optional[bool] = ..., output_notification: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., smart_mode_approval: _Optional[_Union[_shared_pb2.SmartModeApproval, _Mapping]] = ..., hook_approval_requirement: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., conversation_id: _Optional[str] = ..., admin_command_denylist: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class ShellCommandParsingResult(_message.Message):
    __slots__ = ("parsing_failed", "executable_commands", "has_redirects", "has_command_substitution", "all_redirects_are_dev_null", "redirects")
    class ExecutableCommand(_message.Message):
        __slots__ = ("name", "args", "full_text")
        NAME_FIELD_NUMBER: _ClassVar[int]
        ARGS_FIELD_NUMBER: _ClassVar[int]
        FULL_TEXT_FIELD_NUMBER: _ClassVar[int]
        name: str
        args: _containers.RepeatedCompositeFieldContainer[ShellCommandParsingResult.ExecutableCommandArg]
        full_text: str
        def __init__(self, name: _Optional[str] = ..., args: _Optional[_Iterable[_Union[ShellCommandParsingResult.ExecutableCommandArg, _Mapping]]] = ..., full_text: _Optional[str] = ...) -> None: ...
    class ExecutableCommandArg(_message.Message):
        __slots__ = ("type", "value")
        TYPE_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        type: str
        value: str
        def __init__(self, type: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PARSING_FAILED_FIELD_NUMBER: _ClassVar[int]
    EXECUTABLE_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    HAS_REDIRECTS_FIELD_NUMBER: _ClassVar[int]
    HAS_COMMAND_SUBSTITUTION_FIELD_NUMBER: _ClassVar[int]
    ALL_REDIRECTS_ARE_DEV_NULL_FIELD_NUMBER: _ClassVar[int]
    REDIRECTS_FIELD_NUMBER: _ClassVar[int]
    parsing_failed: bool
    executable_commands: _containers.RepeatedCompositeFieldContainer[ShellCommandParsingResult.ExecutableCommand]
    has_redirects: bool
    has_command_substitution: bool
    all_redirects_are_dev_null: bool
    redirects: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    def __init__(self, parsing_failed: _Optional[bool] = ..., executable_commands: _Optional[_Iterable[_Union[ShellCommandParsingResult.ExecutableCommand, _Mapping]]] = ..., has_redirects: _Optional[bool] = ..., has_command_substitution: _Optional[bool] = ..., all_redirects_are_dev_null: _Optional[bool] = ..., redirects: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ...) -> None: ...

class ShellResult(_message.Message):
    __slots__ = ("success", "failure", "timeout", "rejected", "spawn_error", "permission_denied", "sandbox_policy", "is_background", "terminals_folder", "pid")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    SPAWN_ERROR_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_POLICY_FIELD_NUMBER: _ClassVar[int]
    IS_BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    TERMINALS_FOLDER_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    success: ShellSuccess
    failure: ShellFailure
    timeout: ShellTimeout
    rejected: ShellRejected
    spawn_error: ShellSpawnError
    permission_denied: ShellPermissionDenied
    sandbox_policy: SandboxPolicy
    is_background: bool
    terminals_folder: str
    pid: int
    def __init__(self, success: _Optional[_Union[ShellSuccess, _Mapping]] = ..., failure: _Optional[_Union[ShellFailure, _Mapping]] = ..., timeout: _Optional[_Union[ShellTimeout, _Mapping]] = ..., rejected: _Optional[_Union[ShellRejected, _Mapping]] = ..., spawn_error: _Optional[_Union[ShellSpawnError, _Mapping]] = ..., permission_denied: _Optional[_Union[ShellPermissionDenied, _Mapping]] = ..., sandbox_policy: _Optional[_Union[SandboxPolicy, _Mapping]] = ..., is_background: _Optional[bool] = ..., terminals_folder: _Optional[str] = ..., pid: _Optional[int] = ...) -> None: ...

class ShellSuccess(_message.Message):
    __slots__ = ("command", "working_directory", "exit_code", "signal", "stdout", "stderr", "execution_time", "output_location", "shell_id", "interleaved_output", "pid", "ms_to_wait", "local_execution_time_ms", "background_reason", "output_head", "output_tail", "elided_chars")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    SHELL_ID_FIELD_NUMBER: _ClassVar[int]
    INTERLEAVED_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    MS_TO_WAIT_FIELD_NUMBER: _ClassVar[int]
    LOCAL_EXECUTION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_REASON_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_HEAD_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TAIL_FIELD_NUMBER: _ClassVar[int]
    ELIDED_CHARS_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    exit_code: int
    signal: str
    stdout: str
    stderr: str
    execution_time: int
    output_location: _shared_pb2.OutputLocation
    shell_id: int
    interleaved_output: str
    pid: int
    ms_to_wait: int
    local_execution_time_ms: int
    background_reason: _shared_pb2.ShellBackgroundReason
    output_head: str
    output_tail: str
    elided_chars: int
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., exit_code: _Optional[int] = ..., signal: _Optional[str] = ..., stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., execution_time: _Optional[int] = ..., output_location: _Optional[_Union[_shared_pb2.OutputLocation, _Mapping]] = ..., shell_id: _Optional[int] = ..., interleaved_output: _Optional[str] = ..., pid: _Optional[int] = ..., ms_to_wait: _Optional[int] = ..., local_execution_time_ms: _Optional[int] = ..., background_reason: _Optional[_Union[_shared_pb2.ShellBackgroundReason, str]] = ..., output_head: _Optional[str] = ..., output_tail: _Optional[str] = ..., elided_chars: _Optional[int] = ...) -> None: ...

class ShellFailure(_message.Message):
    __slots__ = ("command", "working_directory", "exit_code", "signal", "stdout", "stderr", "execution_time", "output_location", "interleaved_output", "abort_reason", "aborted", "local_execution_time_ms", "output_head", "output_tail", "elided_chars")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_TIME_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    INTERLEAVED_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ABORT_REASON_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    LOCAL_EXECUTION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_HEAD_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_TAIL_FIELD_NUMBER: _ClassVar[int]
    ELIDED_CHARS_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    exit_code: int
    signal: str
    stdout: str
    stderr: str
    execution_time: int
    output_location: _shared_pb2.OutputLocation
    interleaved_output: str
    abort_reason: _shared_pb2.ShellAbortReason
    aborted: bool
    local_execution_time_ms: int
    output_head: str
    output_tail: str
    elided_chars: int
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., exit_code: _Optional[int] = ..., signal: _Optional[str] = ..., stdout: _Optional[str] = ..., stderr: _Optional[str] = ..., execution_time: _Optional[int] = ..., output_location: _Optional[_Union[_shared_pb2.OutputLocation, _Mapping]] = ..., interleaved_output: _Optional[str] = ..., abort_reason: _Optional[_Union[_shared_pb2.ShellAbortReason, str]] = ..., aborted: _Optional[bool] = ..., local_execution_time_ms: _Optional[int] = ..., output_head: _Optional[str] = ..., output_tail: _Optional[str] = ..., elided_chars: _Optional[int] = ...) -> None: ...

class ShellTimeout(_message.Message):
    __slots__ = ("command", "working_directory", "timeout_ms")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    timeout_ms: int
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ShellRejected(_message.Message):
    __slots__ = ("command", "working_directory", "reason", "is_readonly")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IS_READONLY_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    reason: str
    is_readonly: bool
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., reason: _Optional[str] = ..., is_readonly: _Optional[bool] = ...) -> None: ...

class ShellSpawnError(_message.Message):
    __slots__ = ("command", "working_directory", "error")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    error: str
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class ShellPermissionDenied(_message.Message):
    __slots__ = ("command", "working_directory", "error", "is_readonly")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    IS_READONLY_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    error: str
    is_readonly: bool
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., error: _Optional[str] = ..., is_readonly: _Optional[bool] = ...) -> None: ...

class ShellSandboxUnsupported(_message.Message):
    __slots__ = ("command", "working_directory", "sandbox_policy_type", "reason", "is_readonly")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_POLICY_TYPE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    IS_READONLY_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    sandbox_policy_type: str
    reason: str
    is_readonly: bool
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., sandbox_policy_type: _Optional[str] = ..., reason: _Optional[str] = ..., is_readonly: _Optional[bool] = ...) -> None: ...

class ShellStream(_message.Message):
    __slots__ = ("stdout", "stderr", "exit", "start", "rejected", "permission_denied", "backgrounded", "hook_context", "sandbox_unsupported")
    STDOUT_FIELD_NUMBER: _ClassVar[int]
    STDERR_FIELD_NUMBER: _ClassVar[int]
    EXIT_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    BACKGROUNDED_FIELD_NUMBER: _ClassVar[int]
    HOOK_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_UNSUPPORTED_FIELD_NUMBER: _ClassVar[int]
    stdout: ShellStreamStdout
    stderr: ShellStreamStderr
    exit: ShellStreamExit
    start: ShellStreamStart
    rejected: ShellRejected
    permission_denied: ShellPermissionDenied
    backgrounded: ShellStreamBackgrounded
    hook_context: _shared_pb2.Opaque
    sandbox_unsupported: ShellSandboxUnsupported
    def __init__(self, stdout: _Optional[_Union[ShellStreamStdout, _Mapping]] = ..., stderr: _Optional[_Union[ShellStreamStderr, _Mapping]] = ..., exit: _Optional[_Union[ShellStreamExit, _Mapping]] = ..., start: _Optional[_Union[ShellStreamStart, _Mapping]] = ..., rejected: _Optional[_Union[ShellRejected, _Mapping]] = ..., permission_denied: _Optional[_Union[ShellPermissionDenied, _Mapping]] = ..., backgrounded: _Optional[_Union[ShellStreamBackgrounded, _Mapping]] = ..., hook_context: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., sandbox_unsupported: _Optional[_Union[ShellSandboxUnsupported, _Mapping]] = ...) -> None: ...

class ShellStreamStdout(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: str
    def __init__(self, data: _Optional[str] = ...) -> None: ...

class ShellStreamStderr(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: str
    def __init__(self, data: _Optional[str] = ...) -> None: ...

class ShellStreamExit(_message.Message):
    __slots__ = ("code", "cwd", "output_location", "aborted", "abort_reason", "local_execution_time_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    ABORTED_FIELD_NUMBER: _ClassVar[int]
    ABORT_REASON_FIELD_NUMBER: _ClassVar[int]
    LOCAL_EXECUTION_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    code: int
    cwd: str
    output_location: _shared_pb2.OutputLocation
    aborted: bool
    abort_reason: _shared_pb2.ShellAbortReason
    local_execution_time_ms: int
    def __init__(self, code: _Optional[int] = ..., cwd: _Optional[str] = ..., output_location: _Optional[_Union[_shared_pb2.OutputLocation, _Mapping]] = ..., aborted: _Optional[bool] = ..., abort_reason: _Optional[_Union[_shared_pb2.ShellAbortReason, str]] = ..., local_execution_time_ms: _Optional[int] = ...) -> None: ...

class ShellStreamStart(_message.Message):
    __slots__ = ("sandbox_policy",)
    SANDBOX_POLICY_FIELD_NUMBER: _ClassVar[int]
    sandbox_policy: SandboxPolicy
    def __init__(self, sandbox_policy: _Optional[_Union[SandboxPolicy, _Mapping]] = ...) -> None: ...

class ShellStreamBackgrounded(_message.Message):
    __slots__ = ("shell_id", "command", "working_directory", "pid", "ms_to_wait", "reason")
    SHELL_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    MS_TO_WAIT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    shell_id: int
    command: str
    working_directory: str
    pid: int
    ms_to_wait: int
    reason: _shared_pb2.ShellBackgroundReason
    def __init__(self, shell_id: _Optional[int] = ..., command: _Optional[str] = ..., working_directory: _Optional[str] = ..., pid: _Optional[int] = ..., ms_to_wait: _Optional[int] = ..., reason: _Optional[_Union[_shared_pb2.ShellBackgroundReason, str]] = ...) -> None: ...

class SandboxPolicy(_message.Message):
    __slots__ = ("type", "network_access", "additional_readwrite_paths", "additional_readonly_paths", "debug_output_dir", "disable_tmp_write", "allowlist_escalated", "enable_shared_build_cache", "network_policy", "network_policy_strict", "capture_denies", "skip_statsig_defaults", "read_boundary", "additional_read_paths")
    class Type(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        TYPE_UNSPECIFIED: _ClassVar[SandboxPolicy.Type]
        TYPE_INSECURE_NONE: _ClassVar[SandboxPolicy.Type]
        TYPE_WORKSPACE_READWRITE: _ClassVar[SandboxPolicy.Type]
        TYPE_WORKSPACE_READONLY: _ClassVar[SandboxPolicy.Type]
    TYPE_UNSPECIFIED: SandboxPolicy.Type
    TYPE_INSECURE_NONE: SandboxPolicy.Type
    TYPE_WORKSPACE_READWRITE: SandboxPolicy.Type
    TYPE_WORKSPACE_READONLY: SandboxPolicy.Type
    TYPE_FIELD_NUMBER: _ClassVar[int]
    NETWORK_ACCESS_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_READWRITE_PATHS_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_READONLY_PATHS_FIELD_NUMBER: _ClassVar[int]
    DEBUG_OUTPUT_DIR_FIELD_NUMBER: _ClassVar[int]
    DISABLE_TMP_WRITE_FIELD_NUMBER: _ClassVar[int]
    ALLOWLIST_ESCALATED_FIELD_NUMBER: _ClassVar[int]
    ENABLE_SHARED_BUILD_CACHE_FIELD_NUMBER: _ClassVar[int]
    NETWORK_POLICY_FIELD_NUMBER: _ClassVar[int]
    NETWORK_POLICY_STRICT_FIELD_NUMBER: _ClassVar[int]
    CAPTURE_DENIES_FIELD_NUMBER: _ClassVar[int]
    SKIP_STATSIG_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    READ_BOUNDARY_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_READ_PATHS_FIELD_NUMBER: _ClassVar[int]
    type: SandboxPolicy.Type
    network_access: bool
    additional_readwrite_paths: _containers.RepeatedScalarFieldContainer[str]
    additional_readonly_paths: _containers.RepeatedScalarFieldContainer[str]
    debug_output_dir: str
    disable_tmp_write: bool
    allowlist_escalated: bool
    enable_shared_build_cache: bool
    network_policy: _shared_pb2.Opaque
    network_policy_strict: bool
    capture_denies: bool
    skip_statsig_defaults: bool
    read_boundary: int
    additional_read_paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, type: _Optional[_Union[SandboxPolicy.Type, str]] = ..., network_access: _Optional[bool] = ..., additional_readwrite_paths: _Optional[_Iterable[str]] = ..., additional_readonly_paths: _Optional[_Iterable[str]] = ..., debug_output_dir: _Optional[str] = ..., disable_tmp_write: _Optional[bool] = ..., allowlist_escalated: _Optional[bool] = ..., enable_shared_build_cache: _Optional[bool] = ..., network_policy: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., network_policy_strict: _Optional[bool] = ..., capture_denies: _Optional[bool] = ..., skip_statsig_defaults: _Optional[bool] = ..., read_boundary: _Optional[int] = ..., additional_read_paths: _Optional[_Iterable[str]] = ...) -> None: ...

class BackgroundShellSpawnArgs(_message.Message):
    __slots__ = ("command", "working_directory", "tool_call_id", "parsing_result", "sandbox_policy", "enable_write_shell_stdin_tool", "description", "classifier_result", "output_notification", "smart_mode_approval", "hook_approval_requirement", "skip_approval", "conversation_id", "admin_command_denylist", "request_id")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PARSING_RESULT_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_POLICY_FIELD_NUMBER: _ClassVar[int]
    ENABLE_WRITE_SHELL_STDIN_TOOL_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CLASSIFIER_RESULT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_NOTIFICATION_FIELD_NUMBER: _ClassVar[int]
    SMART_MODE_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    HOOK_APPROVAL_REQUIREMENT_FIELD_NUMBER: _ClassVar[int]
    SKIP_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    ADMIN_COMMAND_DENYLIST_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    tool_call_id: str
    parsing_result: ShellCommandParsingResult
    sandbox_policy: SandboxPolicy
    enable_write_shell_stdin_tool: bool
    description: str
    classifier_result: _shared_pb2.Opaque
    output_notification: _shared_pb2.Opaque
    smart_mode_approval: _shared_pb2.SmartModeApproval
    hook_approval_requirement: _shared_pb2.Opaque
    skip_approval: bool
    conversation_id: str
    admin_command_denylist: _containers.RepeatedScalarFieldContainer[str]
    request_id: str
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., parsing_result: _Optional[_Union[ShellCommandParsingResult, _Mapping]] = ..., sandbox_policy: _Optional[_Union[SandboxPolicy, _Mapping]] = ..., enable_write_shell_stdin_tool: _Optional[bool] = ..., description: _Optional[str] = ..., classifier_result: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., output_notification: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., smart_mode_approval: _Optional[_Union[_shared_pb2.SmartModeApproval, _Mapping]] = ..., hook_approval_requirement: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., skip_approval: _Optional[bool] = ..., conversation_id: _Optional[str] = ..., admin_command_denylist: _Optional[_Iterable[str]] = ..., request_id: _Optional[str] = ...) -> None: ...

class BackgroundShellSpawnResult(_message.Message):
    __slots__ = ("success", "error", "rejected", "permission_denied", "sandbox_unsupported")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_UNSUPPORTED_FIELD_NUMBER: _ClassVar[int]
    success: BackgroundShellSpawnSuccess
    error: BackgroundShellSpawnError
    rejected: ShellRejected
    permission_denied: ShellPermissionDenied
    sandbox_unsupported: ShellSandboxUnsupported
    def __init__(self, success: _Optional[_Union[BackgroundShellSpawnSuccess, _Mapping]] = ..., error: _Optional[_Union[BackgroundShellSpawnError, _Mapping]] = ..., rejected: _Optional[_Union[ShellRejected, _Mapping]] = ..., permission_denied: _Optional[_Union[ShellPermissionDenied, _Mapping]] = ..., sandbox_unsupported: _Optional[_Union[ShellSandboxUnsupported, _Mapping]] = ...) -> None: ...

class BackgroundShellSpawnSuccess(_message.Message):
    __slots__ = ("shell_id", "command", "working_directory", "pid")
    SHELL_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    PID_FIELD_NUMBER: _ClassVar[int]
    shell_id: int
    command: str
    working_directory: str
    pid: int
    def __init__(self, shell_id: _Optional[int] = ..., command: _Optional[str] = ..., working_directory: _Optional[str] = ..., pid: _Optional[int] = ...) -> None: ...

class BackgroundShellSpawnError(_message.Message):
    __slots__ = ("command", "working_directory", "error")
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    command: str
    working_directory: str
    error: str
    def __init__(self, command: _Optional[str] = ..., working_directory: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class WriteShellStdinArgs(_message.Message):
    __slots__ = ("shell_id", "chars")
    SHELL_ID_FIELD_NUMBER: _ClassVar[int]
    CHARS_FIELD_NUMBER: _ClassVar[int]
    shell_id: int
    chars: str
    def __init__(self, shell_id: _Optional[int] = ..., chars: _Optional[str] = ...) -> None: ...

class WriteShellStdinResult(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: WriteShellStdinSuccess
    error: WriteShellStdinError
    def __init__(self, success: _Optional[_Union[WriteShellStdinSuccess, _Mapping]] = ..., error: _Optional[_Union[WriteShellStdinError, _Mapping]] = ...) -> None: ...

class WriteShellStdinSuccess(_message.Message):
    __slots__ = ("shell_id", "terminal_file_length_before_input_written")
    SHELL_ID_FIELD_NUMBER: _ClassVar[int]
    TERMINAL_FILE_LENGTH_BEFORE_INPUT_WRITTEN_FIELD_NUMBER: _ClassVar[int]
    shell_id: int
    terminal_file_length_before_input_written: int
    def __init__(self, shell_id: _Optional[int] = ..., terminal_file_length_before_input_written: _Optional[int] = ...) -> None: ...

class WriteShellStdinError(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class ForceBackgroundShellArgs(_message.Message):
    __slots__ = ("tool_call_id",)
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    def __init__(self, tool_call_id: _Optional[str] = ...) -> None: ...

class ForceBackgroundShellResult(_message.Message):
    __slots__ = ("status", "shell_result")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    SHELL_RESULT_FIELD_NUMBER: _ClassVar[int]
    status: _shared_pb2.ForceBackgroundShellStatus
    shell_result: ShellResult
    def __init__(self, status: _Optional[_Union[_shared_pb2.ForceBackgroundShellStatus, str]] = ..., shell_result: _Optional[_Union[ShellResult, _Mapping]] = ...) -> None: ...

class WriteArgs(_message.Message):
    __slots__ = ("path", "file_text", "tool_call_id", "return_file_content_after_write", "file_bytes", "encoding_hint")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILE_TEXT_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    RETURN_FILE_CONTENT_AFTER_WRITE_FIELD_NUMBER: _ClassVar[int]
    FILE_BYTES_FIELD_NUMBER: _ClassVar[int]
    ENCODING_HINT_FIELD_NUMBER: _ClassVar[int]
    path: str
    file_text: str
    tool_call_id: str
    return_file_content_after_write: bool
    file_bytes: bytes
    encoding_hint: str
    def __init__(self, path: _Optional[str] = ..., file_text: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., return_file_content_after_write: _Optional[bool] = ..., file_bytes: _Optional[bytes] = ..., encoding_hint: _Optional[str] = ...) -> None: ...

class WriteResult(_message.Message):
    __slots__ = ("success", "permission_denied", "no_space", "error", "rejected")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    NO_SPACE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    success: WriteSuccess
    permission_denied: WritePermissionDenied
    no_space: WriteNoSpace
    error: WriteError
    rejected: WriteRejected
    def __init__(self, success: _Optional[_Union[WriteSuccess, _Mapping]] = ..., permission_denied: _Optional[_Union[WritePermissionDenied, _Mapping]] = ..., no_space: _Optional[_Union[WriteNoSpace, _Mapping]] = ..., error: _Optional[_Union[WriteError, _Mapping]] = ..., rejected: _Optional[_Union[WriteRejected, _Mapping]] = ...) -> None: ...

class WriteSuccess(_message.Message):
    __slots__ = ("path", "lines_created", "file_size", "file_content_after_write")
    PATH_FIELD_NUMBER: _ClassVar[int]
    LINES_CREATED_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    FILE_CONTENT_AFTER_WRITE_FIELD_NUMBER: _ClassVar[int]
    path: str
    lines_created: int
    file_size: int
    file_content_after_write: str
    def __init__(self, path: _Optional[str] = ..., lines_created: _Optional[int] = ..., file_size: _Optional[int] = ..., file_content_after_write: _Optional[str] = ...) -> None: ...

class WritePermissionDenied(_message.Message):
    __slots__ = ("path", "directory", "operation", "error", "is_readonly")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    OPERATION_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    IS_READONLY_FIELD_NUMBER: _ClassVar[int]
    path: str
    directory: str
    operation: str
    error: str
    is_readonly: bool
    def __init__(self, path: _Optional[str] = ..., directory: _Optional[str] = ..., operation: _Optional[str] = ..., error: _Optional[str] = ..., is_readonly: _Optional[bool] = ...) -> None: ...

class WriteNoSpace(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class WriteError(_message.Message):
    __slots__ = ("path", "error")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    path: str
    error: str
    def __init__(self, path: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class WriteRejected(_message.Message):
    __slots__ = ("path", "reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteArgs(_message.Message):
    __slots__ = ("path", "tool_call_id")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    path: str
    tool_call_id: str
    def __init__(self, path: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class DeleteResult(_message.Message):
    __slots__ = ("success", "file_not_found", "not_file", "permission_denied", "file_busy", "rejected", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FILE_NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    NOT_FILE_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    FILE_BUSY_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: DeleteSuccess
    file_not_found: DeleteFileNotFound
    not_file: DeleteNotFile
    permission_denied: DeletePermissionDenied
    file_busy: DeleteFileBusy
    rejected: DeleteRejected
    error: DeleteError
    def __init__(self, success: _Optional[_Union[DeleteSuccess, _Mapping]] = ..., file_not_found: _Optional[_Union[DeleteFileNotFound, _Mapping]] = ..., not_file: _Optional[_Union[DeleteNotFile, _Mapping]] = ..., permission_denied: _Optional[_Union[DeletePermissionDenied, _Mapping]] = ..., file_busy: _Optional[_Union[DeleteFileBusy, _Mapping]] = ..., rejected: _Optional[_Union[DeleteRejected, _Mapping]] = ..., error: _Optional[_Union[DeleteError, _Mapping]] = ...) -> None: ...

class DeleteSuccess(_message.Message):
    __slots__ = ("path", "deleted_file", "file_size", "prev_content")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DELETED_FILE_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PREV_CONTENT_FIELD_NUMBER: _ClassVar[int]
    path: str
    deleted_file: str
    file_size: int
    prev_content: str
    def __init__(self, path: _Optional[str] = ..., deleted_file: _Optional[str] = ..., file_size: _Optional[int] = ..., prev_content: _Optional[str] = ...) -> None: ...

class DeleteFileNotFound(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class DeleteNotFile(_message.Message):
    __slots__ = ("path", "actual_type")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_TYPE_FIELD_NUMBER: _ClassVar[int]
    path: str
    actual_type: str
    def __init__(self, path: _Optional[str] = ..., actual_type: _Optional[str] = ...) -> None: ...

class DeletePermissionDenied(_message.Message):
    __slots__ = ("path", "client_visible_error", "is_readonly")
    PATH_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VISIBLE_ERROR_FIELD_NUMBER: _ClassVar[int]
    IS_READONLY_FIELD_NUMBER: _ClassVar[int]
    path: str
    client_visible_error: str
    is_readonly: bool
    def __init__(self, path: _Optional[str] = ..., client_visible_error: _Optional[str] = ..., is_readonly: _Optional[bool] = ...) -> None: ...

class DeleteFileBusy(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class DeleteRejected(_message.Message):
    __slots__ = ("path", "reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DeleteError(_message.Message):
    __slots__ = ("path", "error")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    path: str
    error: str
    def __init__(self, path: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class GrepArgs(_message.Message):
    __slots__ = ("pattern", "path", "glob", "output_mode", "context_before", "context_after", "context", "case_insensitive", "type", "head_limit", "multiline", "sort", "sort_ascending", "tool_call_id", "sandbox_policy", "offset")
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    GLOB_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MODE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_AFTER_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    CASE_INSENSITIVE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    HEAD_LIMIT_FIELD_NUMBER: _ClassVar[int]
    MULTILINE_FIELD_NUMBER: _ClassVar[int]
    SORT_FIELD_NUMBER: _ClassVar[int]
    SORT_ASCENDING_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_POLICY_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    path: str
    glob: str
    output_mode: str
    context_before: int
    context_after: int
    context: int
    case_insensitive: bool
    type: str
    head_limit: int
    multiline: bool
    sort: str
    sort_ascending: bool
    tool_call_id: str
    sandbox_policy: SandboxPolicy
    offset: int
    def __init__(self, pattern: _Optional[str] = ..., path: _Optional[str] = ..., glob: _Optional[str] = ..., output_mode: _Optional[str] = ..., context_before: _Optional[int] = ..., context_after: _Optional[int] = ..., context: _Optional[int] = ..., case_insensitive: _Optional[bool] = ..., type: _Optional[str] = ..., head_limit: _Optional[int] = ..., multiline: _Optional[bool] = ..., sort: _Optional[str] = ..., sort_ascending: _Optional[bool] = ..., tool_call_id: _Optional[str] = ..., sandbox_policy: _Optional[_Union[SandboxPolicy, _Mapping]] = ..., offset: _Optional[int] = ...) -> None: ...

class GrepResult(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: GrepSuccess
    error: GrepError
    def __init__(self, success: _Optional[_Union[GrepSuccess, _Mapping]] = ..., error: _Optional[_Union[GrepError, _Mapping]] = ...) -> None: ...

class GrepSuccess(_message.Message):
    __slots__ = ("pattern", "path", "output_mode", "workspace_results", "active_editor_result")
    class WorkspaceResultsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: GrepUnionResult
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[GrepUnionResult, _Mapping]] = ...) -> None: ...
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_MODE_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_RESULTS_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_EDITOR_RESULT_FIELD_NUMBER: _ClassVar[int]
    pattern: str
    path: str
    output_mode: str
    workspace_results: _containers.MessageMap[str, GrepUnionResult]
    active_editor_result: GrepUnionResult
    def __init__(self, pattern: _Optional[str] = ..., path: _Optional[str] = ..., output_mode: _Optional[str] = ..., workspace_results: _Optional[_Mapping[str, GrepUnionResult]] = ..., active_editor_result: _Optional[_Union[GrepUnionResult, _Mapping]] = ...) -> None: ...

class GrepUnionResult(_message.Message):
    __slots__ = ("count", "files", "content")
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    count: GrepCountResult
    files: GrepFilesResult
    content: GrepContentResult
    def __init__(self, count: _Optional[_Union[GrepCountResult, _Mapping]] = ..., files: _Optional[_Union[GrepFilesResult, _Mapping]] = ..., content: _Optional[_Union[GrepContentResult, _Mapping]] = ...) -> None: ...

class GrepCountResult(_message.Message):
    __slots__ = ("counts", "total_files", "total_matches", "client_truncated", "ripgrep_truncated", "head_limit_applied", "offset_applied")
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FILES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MATCHES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    RIPGREP_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    HEAD_LIMIT_APPLIED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_APPLIED_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.RepeatedCompositeFieldContainer[GrepFileCount]
    total_files: int
    total_matches: int
    client_truncated: bool
    ripgrep_truncated: bool
    head_limit_applied: int
    offset_applied: int
    def __init__(self, counts: _Optional[_Iterable[_Union[GrepFileCount, _Mapping]]] = ..., total_files: _Optional[int] = ..., total_matches: _Optional[int] = ..., client_truncated: _Optional[bool] = ..., ripgrep_truncated: _Optional[bool] = ..., head_limit_applied: _Optional[int] = ..., offset_applied: _Optional[int] = ...) -> None: ...

class GrepFileCount(_message.Message):
    __slots__ = ("file", "count")
    FILE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    file: str
    count: int
    def __init__(self, file: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class GrepFilesResult(_message.Message):
    __slots__ = ("files", "total_files", "client_truncated", "ripgrep_truncated", "head_limit_applied", "offset_applied")
    FILES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FILES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    RIPGREP_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    HEAD_LIMIT_APPLIED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_APPLIED_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedScalarFieldContainer[str]
    total_files: int
    client_truncated: bool
    ripgrep_truncated: bool
    head_limit_applied: int
    offset_applied: int
    def __init__(self, files: _Optional[_Iterable[str]] = ..., total_files: _Optional[int] = ..., client_truncated: _Optional[bool] = ..., ripgrep_truncated: _Optional[bool] = ..., head_limit_applied: _Optional[int] = ..., offset_applied: _Optional[int] = ...) -> None: ...

class GrepContentResult(_message.Message):
    __slots__ = ("matches", "total_lines", "total_matched_lines", "client_truncated", "ripgrep_truncated", "head_limit_applied", "offset_applied")
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LINES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_MATCHED_LINES_FIELD_NUMBER: _ClassVar[int]
    CLIENT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    RIPGREP_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    HEAD_LIMIT_APPLIED_FIELD_NUMBER: _ClassVar[int]
    OFFSET_APPLIED_FIELD_NUMBER: _ClassVar[int]
    matches: _containers.RepeatedCompositeFieldContainer[GrepFileMatch]
    total_lines: int
    total_matched_lines: int
    client_truncated: bool
    ripgrep_truncated: bool
    head_limit_applied: int
    offset_applied: int
    def __init__(self, matches: _Optional[_Iterable[_Union[GrepFileMatch, _Mapping]]] = ..., total_lines: _Optional[int] = ..., total_matched_lines: _Optional[int] = ..., client_truncated: _Optional[bool] = ..., ripgrep_truncated: _Optional[bool] = ..., head_limit_applied: _Optional[int] = ..., offset_applied: _Optional[int] = ...) -> None: ...

class GrepFileMatch(_message.Message):
    __slots__ = ("file", "matches")
    FILE_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    file: str
    matches: _containers.RepeatedCompositeFieldContainer[GrepContentMatch]
    def __init__(self, file: _Optional[str] = ..., matches: _Optional[_Iterable[_Union[GrepContentMatch, _Mapping]]] = ...) -> None: ...

class GrepContentMatch(_message.Message):
    __slots__ = ("line_number", "content", "content_truncated", "is_context_line")
    LINE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    IS_CONTEXT_LINE_FIELD_NUMBER: _ClassVar[int]
    line_number: int
    content: str
    content_truncated: bool
    is_context_line: bool
    def __init__(self, line_number: _Optional[int] = ..., content: _Optional[str] = ..., content_truncated: _Optional[bool] = ..., is_context_line: _Optional[bool] = ...) -> None: ...

class GrepError(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class ReadArgs(_message.Message):
    __slots__ = ("path", "tool_call_id", "offset", "limit", "encoding_hint")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_HINT_FIELD_NUMBER: _ClassVar[int]
    path: str
    tool_call_id: str
    offset: int
    limit: int
    encoding_hint: str
    def __init__(self, path: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ..., encoding_hint: _Optional[str] = ...) -> None: ...

class ReadResult(_message.Message):
    __slots__ = ("success", "error", "rejected", "file_not_found", "permission_denied", "invalid_file")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    FILE_NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    INVALID_FILE_FIELD_NUMBER: _ClassVar[int]
    success: ReadSuccess
    error: ReadError
    rejected: ReadRejected
    file_not_found: ReadFileNotFound
    permission_denied: ReadPermissionDenied
    invalid_file: ReadInvalidFile
    def __init__(self, success: _Optional[_Union[ReadSuccess, _Mapping]] = ..., error: _Optional[_Union[ReadError, _Mapping]] = ..., rejected: _Optional[_Union[ReadRejected, _Mapping]] = ..., file_not_found: _Optional[_Union[ReadFileNotFound, _Mapping]] = ..., permission_denied: _Optional[_Union[ReadPermissionDenied, _Mapping]] = ..., invalid_file: _Optional[_Union[ReadInvalidFile, _Mapping]] = ...) -> None: ...

class ReadSuccess(_message.Message):
    __slots__ = ("path", "content", "data", "total_lines", "file_size", "truncated", "output_blob_id", "range_applied")
    PATH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TOTAL_LINES_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    RANGE_APPLIED_FIELD_NUMBER: _ClassVar[int]
    path: str
    content: str
    data: bytes
    total_lines: int
    file_size: int
    truncated: bool
    output_blob_id: bytes
    range_applied: bool
    def __init__(self, path: _Optional[str] = ..., content: _Optional[str] = ..., data: _Optional[bytes] = ..., total_lines: _Optional[int] = ..., file_size: _Optional[int] = ..., truncated: _Optional[bool] = ..., output_blob_id: _Optional[bytes] = ..., range_applied: _Optional[bool] = ...) -> None: ...

class ReadError(_message.Message):
    __slots__ = ("path", "error")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    path: str
    error: str
    def __init__(self, path: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class ReadRejected(_message.Message):
    __slots__ = ("path", "reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReadFileNotFound(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class ReadPermissionDenied(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class ReadInvalidFile(_message.Message):
    __slots__ = ("path", "reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class LsArgs(_message.Message):
    __slots__ = ("path", "ignore", "tool_call_id", "sandbox_policy", "timeout_ms")
    PATH_FIELD_NUMBER: _ClassVar[int]
    IGNORE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_POLICY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    path: str
    ignore: _containers.RepeatedScalarFieldContainer[str]
    tool_call_id: str
    sandbox_policy: SandboxPolicy
    timeout_ms: int
    def __init__(self, path: _Optional[str] = ..., ignore: _Optional[_Iterable[str]] = ..., tool_call_id: _Optional[str] = ..., sandbox_policy: _Optional[_Union[SandboxPolicy, _Mapping]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class LsResult(_message.Message):
    __slots__ = ("success", "error", "rejected", "timeout")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    success: LsSuccess
    error: LsError
    rejected: LsRejected
    timeout: LsTimeout
    def __init__(self, success: _Optional[_Union[LsSuccess, _Mapping]] = ..., error: _Optional[_Union[LsError, _Mapping]] = ..., rejected: _Optional[_Union[LsRejected, _Mapping]] = ..., timeout: _Optional[_Union[LsTimeout, _Mapping]] = ...) -> None: ...

class LsSuccess(_message.Message):
    __slots__ = ("directory_tree_root",)
    DIRECTORY_TREE_ROOT_FIELD_NUMBER: _ClassVar[int]
    directory_tree_root: LsDirectoryTreeNode
    def __init__(self, directory_tree_root: _Optional[_Union[LsDirectoryTreeNode, _Mapping]] = ...) -> None: ...

class LsTimeout(_message.Message):
    __slots__ = ("directory_tree_root",)
    DIRECTORY_TREE_ROOT_FIELD_NUMBER: _ClassVar[int]
    directory_tree_root: LsDirectoryTreeNode
    def __init__(self, directory_tree_root: _Optional[_Union[LsDirectoryTreeNode, _Mapping]] = ...) -> None: ...

class LsDirectoryTreeNode(_message.Message):
    __slots__ = ("abs_path", "children_dirs", "children_files", "children_were_processed", "full_subtree_extension_counts", "num_files")
    class File(_message.Message):
        __slots__ = ("name", "terminal_metadata")
        NAME_FIELD_NUMBER: _ClassVar[int]
        TERMINAL_METADATA_FIELD_NUMBER: _ClassVar[int]
        name: str
        terminal_metadata: _shared_pb2.Opaque
        def __init__(self, name: _Optional[str] = ..., terminal_metadata: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...
    class FullSubtreeExtensionCountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    ABS_PATH_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_DIRS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FILES_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_WERE_PROCESSED_FIELD_NUMBER: _ClassVar[int]
    FULL_SUBTREE_EXTENSION_COUNTS_FIELD_NUMBER: _ClassVar[int]
    NUM_FILES_FIELD_NUMBER: _ClassVar[int]
    abs_path: str
    children_dirs: _containers.RepeatedCompositeFieldContainer[LsDirectoryTreeNode]
    children_files: _containers.RepeatedCompositeFieldContainer[LsDirectoryTreeNode.File]
    children_were_processed: bool
    full_subtree_extension_counts: _containers.ScalarMap[str, int]
    num_files: int
    def __init__(self, abs_path: _Optional[str] = ..., children_dirs: _Optional[_Iterable[_Union[LsDirectoryTreeNode, _Mapping]]] = ..., children_files: _Optional[_Iterable[_Union[LsDirectoryTreeNode.File, _Mapping]]] = ..., children_were_processed: _Optional[bool] = ..., full_subtree_extension_counts: _Optional[_Mapping[str, int]] = ..., num_files: _Optional[int] = ...) -> None: ...

class LsError(_message.Message):
    __slots__ = ("path", "error")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    path: str
    error: str
    def __init__(self, path: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class LsRejected(_message.Message):
    __slots__ = ("path", "reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DiagnosticsArgs(_message.Message):
    __slots__ = ("path", "tool_call_id")
    PATH_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    path: str
    tool_call_id: str
    def __init__(self, path: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class DiagnosticsResult(_message.Message):
    __slots__ = ("success", "error", "rejected", "file_not_found", "permission_denied")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    FILE_NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    success: DiagnosticsSuccess
    error: DiagnosticsError
    rejected: DiagnosticsRejected
    file_not_found: DiagnosticsFileNotFound
    permission_denied: DiagnosticsPermissionDenied
    def __init__(self, success: _Optional[_Union[DiagnosticsSuccess, _Mapping]] = ..., error: _Optional[_Union[DiagnosticsError, _Mapping]] = ..., rejected: _Optional[_Union[DiagnosticsRejected, _Mapping]] = ..., file_not_found: _Optional[_Union[DiagnosticsFileNotFound, _Mapping]] = ..., permission_denied: _Optional[_Union[DiagnosticsPermissionDenied, _Mapping]] = ...) -> None: ...

class DiagnosticsSuccess(_message.Message):
    __slots__ = ("path", "diagnostics", "total_diagnostics")
    PATH_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_DIAGNOSTICS_FIELD_NUMBER: _ClassVar[int]
    path: str
    diagnostics: _containers.RepeatedCompositeFieldContainer[Diagnostic]
    total_diagnostics: int
    def __init__(self, path: _Optional[str] = ..., diagnostics: _Optional[_Iterable[_Union[Diagnostic, _Mapping]]] = ..., total_diagnostics: _Optional[int] = ...) -> None: ...

class Diagnostic(_message.Message):
    __slots__ = ("severity", "range", "message", "source", "code", "is_stale")
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    RANGE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    IS_STALE_FIELD_NUMBER: _ClassVar[int]
    severity: _shared_pb2.DiagnosticSeverity
    range: Range
    message: str
    source: str
    code: str
    is_stale: bool
    def __init__(self, severity: _Optional[_Union[_shared_pb2.DiagnosticSeverity, str]] = ..., range: _Optional[_Union[Range, _Mapping]] = ..., message: _Optional[str] = ..., source: _Optional[str] = ..., code: _Optional[str] = ..., is_stale: _Optional[bool] = ...) -> None: ...

class Range(_message.Message):
    __slots__ = ("start", "end")
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    start: Position
    end: Position
    def __init__(self, start: _Optional[_Union[Position, _Mapping]] = ..., end: _Optional[_Union[Position, _Mapping]] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("line", "column")
    LINE_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FIELD_NUMBER: _ClassVar[int]
    line: int
    column: int
    def __init__(self, line: _Optional[int] = ..., column: _Optional[int] = ...) -> None: ...

class DiagnosticsError(_message.Message):
    __slots__ = ("path", "error")
    PATH_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    path: str
    error: str
    def __init__(self, path: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class DiagnosticsRejected(_message.Message):
    __slots__ = ("path", "reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    reason: str
    def __init__(self, path: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class DiagnosticsFileNotFound(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class DiagnosticsPermissionDenied(_message.Message):
    __slots__ = ("path",)
    PATH_FIELD_NUMBER: _ClassVar[int]
    path: str
    def __init__(self, path: _Optional[str] = ...) -> None: ...

class McpArgs(_message.Message):
    __slots__ = ("name", "args", "tool_call_id", "provider_identifier", "tool_name", "smart_mode_approval", "smart_mode_approval_only", "skip_approval", "server_identifier")
    class ArgsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _struct_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    SMART_MODE_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    SMART_MODE_APPROVAL_ONLY_FIELD_NUMBER: _ClassVar[int]
    SKIP_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    SERVER_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    args: _containers.MessageMap[str, _struct_pb2.Value]
    tool_call_id: str
    provider_identifier: str
    tool_name: str
    smart_mode_approval: _shared_pb2.SmartModeApproval
    smart_mode_approval_only: bool
    skip_approval: bool
    server_identifier: str
    def __init__(self, name: _Optional[str] = ..., args: _Optional[_Mapping[str, _struct_pb2.Value]] = ..., tool_call_id: _Optional[str] = ..., provider_identifier: _Optional[str] = ..., tool_name: _Optional[str] = ..., smart_mode_approval: _Optional[_Union[_shared_pb2.SmartModeApproval, _Mapping]] = ..., smart_mode_approval_only: _Optional[bool] = ..., skip_approval: _Optional[bool] = ..., server_identifier: _Optional[str] = ...) -> None: ...

class McpResult(_message.Message):
    __slots__ = ("success", "error", "rejected", "permission_denied", "tool_not_found", "server_not_found", "approved")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_DENIED_FIELD_NUMBER: _ClassVar[int]
    TOOL_NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    SERVER_NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    success: McpSuccess
    error: McpError
    rejected: McpRejected
    permission_denied: McpPermissionDenied
    tool_not_found: McpToolNotFound
    server_not_found: McpServerNotFound
    approved: McpApproved
    def __init__(self, success: _Optional[_Union[McpSuccess, _Mapping]] = ..., error: _Optional[_Union[McpError, _Mapping]] = ..., rejected: _Optional[_Union[McpRejected, _Mapping]] = ..., permission_denied: _Optional[_Union[McpPermissionDenied, _Mapping]] = ..., tool_not_found: _Optional[_Union[McpToolNotFound, _Mapping]] = ..., server_not_found: _Optional[_Union[McpServerNotFound, _Mapping]] = ..., approved: _Optional[_Union[McpApproved, _Mapping]] = ...) -> None: ...

class McpSuccess(_message.Message):
    __slots__ = ("content", "is_error", "structured_content")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_CONTENT_FIELD_NUMBER: _ClassVar[int]
    content: _containers.RepeatedCompositeFieldContainer[McpToolResultContentItem]
    is_error: bool
    structured_content: _struct_pb2.Struct
    def __init__(self, content: _Optional[_Iterable[_Union[McpToolResultContentItem, _Mapping]]] = ..., is_error: _Optional[bool] = ..., structured_content: _Optional[_Union[_struct_pb2.Struct, _Mapping]] = ...) -> None: ...

class McpToolResultContentItem(_message.Message):
    __slots__ = ("text", "image")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    text: McpTextContent
    image: McpImageContent
    def __init__(self, text: _Optional[_Union[McpTextContent, _Mapping]] = ..., image: _Optional[_Union[McpImageContent, _Mapping]] = ...) -> None: ...

class McpTextContent(_message.Message):
    __slots__ = ("text", "output_location")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    text: str
    output_location: _shared_pb2.OutputLocation
    def __init__(self, text: _Optional[str] = ..., output_location: _Optional[_Union[_shared_pb2.OutputLocation, _Mapping]] = ...) -> None: ...

class McpImageContent(_message.Message):
    __slots__ = ("data", "mime_type")
    DATA_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    mime_type: str
    def __init__(self, data: _Optional[bytes] = ..., mime_type: _Optional[str] = ...) -> None: ...

class McpError(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class McpRejected(_message.Message):
    __slots__ = ("reason", "is_readonly")
    REASON_FIELD_NUMBER: _ClassVar[int]
    IS_READONLY_FIELD_NUMBER: _ClassVar[int]
    reason: str
    is_readonly: bool
    def __init__(self, reason: _Optional[str] = ..., is_readonly: _Optional[bool] = ...) -> None: ...

class McpPermissionDenied(_message.Message):
    __slots__ = ("error", "is_readonly")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    IS_READONLY_FIELD_NUMBER: _ClassVar[int]
    error: str
    is_readonly: bool
    def __init__(self, error: _Optional[str] = ..., is_readonly: _Optional[bool] = ...) -> None: ...

class McpToolNotFound(_message.Message):
    __slots__ = ("name", "available_tools")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_TOOLS_FIELD_NUMBER: _ClassVar[int]
    name: str
    available_tools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., available_tools: _Optional[_Iterable[str]] = ...) -> None: ...

class McpServerNotFound(_message.Message):
    __slots__ = ("name", "available_servers")
    NAME_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_SERVERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    available_servers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., available_servers: _Optional[_Iterable[str]] = ...) -> None: ...

class McpStateExecArgs(_message.Message):
    __slots__ = ("server_identifiers", "kick_only")
    SERVER_IDENTIFIERS_FIELD_NUMBER: _ClassVar[int]
    KICK_ONLY_FIELD_NUMBER: _ClassVar[int]
    server_identifiers: _containers.RepeatedScalarFieldContainer[str]
    kick_only: bool
    def __init__(self, server_identifiers: _Optional[_Iterable[str]] = ..., kick_only: _Optional[bool] = ...) -> None: ...

class McpStateExecResult(_message.Message):
    __slots__ = ("success", "error", "rejected")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    success: McpStateSuccess
    error: McpStateError
    rejected: McpStateRejected
    def __init__(self, success: _Optional[_Union[McpStateSuccess, _Mapping]] = ..., error: _Optional[_Union[McpStateError, _Mapping]] = ..., rejected: _Optional[_Union[McpStateRejected, _Mapping]] = ...) -> None: ...

class McpStateSuccess(_message.Message):
    __slots__ = ("servers",)
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    servers: _containers.RepeatedCompositeFieldContainer[McpStateServer]
    def __init__(self, servers: _Optional[_Iterable[_Union[McpStateServer, _Mapping]]] = ...) -> None: ...

class McpStateServer(_message.Message):
    __slots__ = ("server_name", "server_identifier", "plugin", "marketplace", "tools", "instructions", "status", "error_message")
    SERVER_NAME_FIELD_NUMBER: _ClassVar[int]
    SERVER_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    MARKETPLACE_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    server_name: str
    server_identifier: str
    plugin: str
    marketplace: str
    tools: _containers.RepeatedCompositeFieldContainer[_shared_pb2.McpToolDefinition]
    instructions: _containers.RepeatedCompositeFieldContainer[_shared_pb2.McpInstructions]
    status: str
    error_message: str
    def __init__(self, server_name: _Optional[str] = ..., server_identifier: _Optional[str] = ..., plugin: _Optional[str] = ..., marketplace: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[_shared_pb2.McpToolDefinition, _Mapping]]] = ..., instructions: _Optional[_Iterable[_Union[_shared_pb2.McpInstructions, _Mapping]]] = ..., status: _Optional[str] = ..., error_message: _Optional[str] = ...) -> None: ...

class McpStateError(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class McpStateRejected(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class McpAllowlistPrecheckArgs(_message.Message):
    __slots__ = ("provider_identifier", "tool_name", "tool_call_id", "annotations_json")
    PROVIDER_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    provider_identifier: str
    tool_name: str
    tool_call_id: str
    annotations_json: str
    def __init__(self, provider_identifier: _Optional[str] = ..., tool_name: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., annotations_json: _Optional[str] = ...) -> None: ...

class McpAllowlistPrecheckResult(_message.Message):
    __slots__ = ("allowlisted",)
    ALLOWLISTED_FIELD_NUMBER: _ClassVar[int]
    allowlisted: bool
    def __init__(self, allowlisted: _Optional[bool] = ...) -> None: ...

class ListMcpResourcesExecArgs(_message.Message):
    __slots__ = ("server",)
    SERVER_FIELD_NUMBER: _ClassVar[int]
    server: str
    def __init__(self, server: _Optional[str] = ...) -> None: ...

class ListMcpResourcesExecResult(_message.Message):
    __slots__ = ("success", "error", "rejected")
    class McpResource(_message.Message):
        __slots__ = ("uri", "name", "description", "mime_type", "server", "annotations")
        class AnnotationsEntry(_message.Message):
            __slots__ = ("key", "value")
            KEY_FIELD_NUMBER: _ClassVar[int]
            VALUE_FIELD_NUMBER: _ClassVar[int]
            key: str
            value: str
            def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
        URI_FIELD_NUMBER: _ClassVar[int]
        NAME_FIELD_NUMBER: _ClassVar[int]
        DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
        MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
        SERVER_FIELD_NUMBER: _ClassVar[int]
        ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
        uri: str
        name: str
        description: str
        mime_type: str
        server: str
        annotations: _containers.ScalarMap[str, str]
        def __init__(self, uri: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., mime_type: _Optional[str] = ..., server: _Optional[str] = ..., annotations: _Optional[_Mapping[str, str]] = ...) -> None: ...
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    success: ListMcpResourcesSuccess
    error: ListMcpResourcesError
    rejected: ListMcpResourcesRejected
    def __init__(self, success: _Optional[_Union[ListMcpResourcesSuccess, _Mapping]] = ..., error: _Optional[_Union[ListMcpResourcesError, _Mapping]] = ..., rejected: _Optional[_Union[ListMcpResourcesRejected, _Mapping]] = ...) -> None: ...

class ListMcpResourcesSuccess(_message.Message):
    __slots__ = ("resources",)
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    resources: _containers.RepeatedCompositeFieldContainer[ListMcpResourcesExecResult.McpResource]
    def __init__(self, resources: _Optional[_Iterable[_Union[ListMcpResourcesExecResult.McpResource, _Mapping]]] = ...) -> None: ...

class ListMcpResourcesError(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class ListMcpResourcesRejected(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class ReadMcpResourceExecArgs(_message.Message):
    __slots__ = ("server", "uri", "download_path", "tool_call_id", "smart_mode_approval")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    DOWNLOAD_PATH_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SMART_MODE_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    server: str
    uri: str
    download_path: str
    tool_call_id: str
    smart_mode_approval: _shared_pb2.SmartModeApproval
    def __init__(self, server: _Optional[str] = ..., uri: _Optional[str] = ..., download_path: _Optional[str] = ..., tool_call_id: _Optional[str] = ..., smart_mode_approval: _Optional[_Union[_shared_pb2.SmartModeApproval, _Mapping]] = ...) -> None: ...

class ReadMcpResourceExecResult(_message.Message):
    __slots__ = ("success", "error", "rejected", "not_found")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    success: ReadMcpResourceSuccess
    error: ReadMcpResourceError
    rejected: ReadMcpResourceRejected
    not_found: ReadMcpResourceNotFound
    def __init__(self, success: _Optional[_Union[ReadMcpResourceSuccess, _Mapping]] = ..., error: _Optional[_Union[ReadMcpResourceError, _Mapping]] = ..., rejected: _Optional[_Union[ReadMcpResourceRejected, _Mapping]] = ..., not_found: _Optional[_Union[ReadMcpResourceNotFound, _Mapping]] = ...) -> None: ...

class ReadMcpResourceSuccess(_message.Message):
    __slots__ = ("uri", "name", "description", "mime_type", "text", "blob", "annotations", "download_path", "output_location")
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    URI_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    DOWNLOAD_PATH_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    uri: str
    name: str
    description: str
    mime_type: str
    text: str
    blob: bytes
    annotations: _containers.ScalarMap[str, str]
    download_path: str
    output_location: _shared_pb2.OutputLocation
    def __init__(self, uri: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., mime_type: _Optional[str] = ..., text: _Optional[str] = ..., blob: _Optional[bytes] = ..., annotations: _Optional[_Mapping[str, str]] = ..., download_path: _Optional[str] = ..., output_location: _Optional[_Union[_shared_pb2.OutputLocation, _Mapping]] = ...) -> None: ...

class ReadMcpResourceError(_message.Message):
    __slots__ = ("uri", "error")
    URI_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    uri: str
    error: str
    def __init__(self, uri: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class ReadMcpResourceRejected(_message.Message):
    __slots__ = ("uri", "reason")
    URI_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    uri: str
    reason: str
    def __init__(self, uri: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ReadMcpResourceNotFound(_message.Message):
    __slots__ = ("uri",)
    URI_FIELD_NUMBER: _ClassVar[int]
    uri: str
    def __init__(self, uri: _Optional[str] = ...) -> None: ...

class FetchArgs(_message.Message):
    __slots__ = ("url", "tool_call_id")
    URL_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    url: str
    tool_call_id: str
    def __init__(self, url: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class FetchResult(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: FetchSuccess
    error: FetchError
    def __init__(self, success: _Optional[_Union[FetchSuccess, _Mapping]] = ..., error: _Optional[_Union[FetchError, _Mapping]] = ...) -> None: ...

class FetchSuccess(_message.Message):
    __slots__ = ("url", "content", "status_code", "content_type")
    URL_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_CODE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    url: str
    content: str
    status_code: int
    content_type: str
    def __init__(self, url: _Optional[str] = ..., content: _Optional[str] = ..., status_code: _Optional[int] = ..., content_type: _Optional[str] = ...) -> None: ...

class FetchError(_message.Message):
    __slots__ = ("url", "error")
    URL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    url: str
    error: str
    def __init__(self, url: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class WebFetchAllowlistPrecheckArgs(_message.Message):
    __slots__ = ("url", "tool_call_id")
    URL_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    url: str
    tool_call_id: str
    def __init__(self, url: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class WebFetchAllowlistPrecheckResult(_message.Message):
    __slots__ = ("allowlisted",)
    ALLOWLISTED_FIELD_NUMBER: _ClassVar[int]
    allowlisted: bool
    def __init__(self, allowlisted: _Optional[bool] = ...) -> None: ...

class RecordScreenArgs(_message.Message):
    __slots__ = ("mode", "tool_call_id", "save_as_filename")
    MODE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SAVE_AS_FILENAME_FIELD_NUMBER: _ClassVar[int]
    mode: _shared_pb2.RecordingMode
    tool_call_id: str
    save_as_filename: str
    def __init__(self, mode: _Optional[_Union[_shared_pb2.RecordingMode, str]] = ..., tool_call_id: _Optional[str] = ..., save_as_filename: _Optional[str] = ...) -> None: ...

class RecordScreenResult(_message.Message):
    __slots__ = ("start_success", "save_success", "discard_success", "failure")
    START_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    SAVE_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    DISCARD_SUCCESS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    start_success: RecordScreenStartSuccess
    save_success: RecordScreenSaveSuccess
    discard_success: RecordScreenDiscardSuccess
    failure: RecordScreenFailure
    def __init__(self, start_success: _Optional[_Union[RecordScreenStartSuccess, _Mapping]] = ..., save_success: _Optional[_Union[RecordScreenSaveSuccess, _Mapping]] = ..., discard_success: _Optional[_Union[RecordScreenDiscardSuccess, _Mapping]] = ..., failure: _Optional[_Union[RecordScreenFailure, _Mapping]] = ...) -> None: ...

class RecordScreenStartSuccess(_message.Message):
    __slots__ = ("was_prior_recording_cancelled", "was_save_as_filename_ignored")
    WAS_PRIOR_RECORDING_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    WAS_SAVE_AS_FILENAME_IGNORED_FIELD_NUMBER: _ClassVar[int]
    was_prior_recording_cancelled: bool
    was_save_as_filename_ignored: bool
    def __init__(self, was_prior_recording_cancelled: _Optional[bool] = ..., was_save_as_filename_ignored: _Optional[bool] = ...) -> None: ...

class RecordScreenSaveSuccess(_message.Message):
    __slots__ = ("path", "recording_duration_ms", "requested_file_path_rejected_reason")
    PATH_FIELD_NUMBER: _ClassVar[int]
    RECORDING_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FILE_PATH_REJECTED_REASON_FIELD_NUMBER: _ClassVar[int]
    path: str
    recording_duration_ms: int
    requested_file_path_rejected_reason: int
    def __init__(self, path: _Optional[str] = ..., recording_duration_ms: _Optional[int] = ..., requested_file_path_rejected_reason: _Optional[int] = ...) -> None: ...

class RecordScreenFailure(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class ComputerUseArgs(_message.Message):
    __slots__ = ("tool_call_id", "actions", "description", "bind_unmapped_characters")
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIONS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    BIND_UNMAPPED_CHARACTERS_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    actions: _containers.RepeatedCompositeFieldContainer[ComputerUseAction]
    description: str
    bind_unmapped_characters: bool
    def __init__(self, tool_call_id: _Optional[str] = ..., actions: _Optional[_Iterable[_Union[ComputerUseAction, _Mapping]]] = ..., description: _Optional[str] = ..., bind_unmapped_characters: _Optional[bool] = ...) -> None: ...

class ComputerUseAction(_message.Message):
    __slots__ = ("mouse_move", "click", "mouse_down", "mouse_up", "drag", "scroll", "type", "key", "wait", "screenshot", "cursor_position")
    MOUSE_MOVE_FIELD_NUMBER: _ClassVar[int]
    CLICK_FIELD_NUMBER: _ClassVar[int]
    MOUSE_DOWN_FIELD_NUMBER: _ClassVar[int]
    MOUSE_UP_FIELD_NUMBER: _ClassVar[int]
    DRAG_FIELD_NUMBER: _ClassVar[int]
    SCROLL_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    SCREENSHOT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_POSITION_FIELD_NUMBER: _ClassVar[int]
    mouse_move: MouseMoveAction
    click: ClickAction
    mouse_down: _shared_pb2.Opaque
    mouse_up: _shared_pb2.Opaque
    drag: DragAction
    scroll: ScrollAction
    type: TypeAction
    key: KeyAction
    wait: WaitAction
    screenshot: _shared_pb2.Opaque
    cursor_position: _shared_pb2.Opaque
    def __init__(self, mouse_move: _Optional[_Union[MouseMoveAction, _Mapping]] = ..., click: _Optional[_Union[ClickAction, _Mapping]] = ..., mouse_down: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., mouse_up: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., drag: _Optional[_Union[DragAction, _Mapping]] = ..., scroll: _Optional[_Union[ScrollAction, _Mapping]] = ..., type: _Optional[_Union[TypeAction, _Mapping]] = ..., key: _Optional[_Union[KeyAction, _Mapping]] = ..., wait: _Optional[_Union[WaitAction, _Mapping]] = ..., screenshot: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., cursor_position: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class MouseMoveAction(_message.Message):
    __slots__ = ("coordinate",)
    COORDINATE_FIELD_NUMBER: _ClassVar[int]
    coordinate: Coordinate
    def __init__(self, coordinate: _Optional[_Union[Coordinate, _Mapping]] = ...) -> None: ...

class ClickAction(_message.Message):
    __slots__ = ("coordinate", "button", "count", "modifier_keys")
    COORDINATE_FIELD_NUMBER: _ClassVar[int]
    BUTTON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    MODIFIER_KEYS_FIELD_NUMBER: _ClassVar[int]
    coordinate: Coordinate
    button: _shared_pb2.MouseButton
    count: int
    modifier_keys: str
    def __init__(self, coordinate: _Optional[_Union[Coordinate, _Mapping]] = ..., button: _Optional[_Union[_shared_pb2.MouseButton, str]] = ..., count: _Optional[int] = ..., modifier_keys: _Optional[str] = ...) -> None: ...

class DragAction(_message.Message):
    __slots__ = ("path", "button", "modifier_keys")
    PATH_FIELD_NUMBER: _ClassVar[int]
    BUTTON_FIELD_NUMBER: _ClassVar[int]
    MODIFIER_KEYS_FIELD_NUMBER: _ClassVar[int]
    path: _containers.RepeatedCompositeFieldContainer[Coordinate]
    button: _shared_pb2.MouseButton
    modifier_keys: str
    def __init__(self, path: _Optional[_Iterable[_Union[Coordinate, _Mapping]]] = ..., button: _Optional[_Union[_shared_pb2.MouseButton, str]] = ..., modifier_keys: _Optional[str] = ...) -> None: ...

class ScrollAction(_message.Message):
    __slots__ = ("coordinate", "direction", "amount", "modifier_keys")
    COORDINATE_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    AMOUNT_FIELD_NUMBER: _ClassVar[int]
    MODIFIER_KEYS_FIELD_NUMBER: _ClassVar[int]
    coordinate: Coordinate
    direction: _shared_pb2.ScrollDirection
    amount: int
    modifier_keys: str
    def __init__(self, coordinate: _Optional[_Union[Coordinate, _Mapping]] = ..., direction: _Optional[_Union[_shared_pb2.ScrollDirection, str]] = ..., amount: _Optional[int] = ..., modifier_keys: _Optional[str] = ...) -> None: ...

class TypeAction(_message.Message):
    __slots__ = ("text",)
    TEXT_FIELD_NUMBER: _ClassVar[int]
    text: str
    def __init__(self, text: _Optional[str] = ...) -> None: ...

class KeyAction(_message.Message):
    __slots__ = ("key", "hold_duration_ms")
    KEY_FIELD_NUMBER: _ClassVar[int]
    HOLD_DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    key: str
    hold_duration_ms: int
    def __init__(self, key: _Optional[str] = ..., hold_duration_ms: _Optional[int] = ...) -> None: ...

class WaitAction(_message.Message):
    __slots__ = ("duration_ms",)
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    duration_ms: int
    def __init__(self, duration_ms: _Optional[int] = ...) -> None: ...

class Coordinate(_message.Message):
    __slots__ = ("x", "y")
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    x: int
    y: int
    def __init__(self, x: _Optional[int] = ..., y: _Optional[int] = ...) -> None: ...

class ComputerUseResult(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: ComputerUseSuccess
    error: ComputerUseError
    def __init__(self, success: _Optional[_Union[ComputerUseSuccess, _Mapping]] = ..., error: _Optional[_Union[ComputerUseError, _Mapping]] = ...) -> None: ...

class ComputerUseSuccess(_message.Message):
    __slots__ = ("action_count", "duration_ms", "screenshot", "log", "screenshot_path", "cursor_position")
    ACTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    SCREENSHOT_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    SCREENSHOT_PATH_FIELD_NUMBER: _ClassVar[int]
    CURSOR_POSITION_FIELD_NUMBER: _ClassVar[int]
    action_count: int
    duration_ms: int
    screenshot: str
    log: str
    screenshot_path: str
    cursor_position: Coordinate
    def __init__(self, action_count: _Optional[int] = ..., duration_ms: _Optional[int] = ..., screenshot: _Optional[str] = ..., log: _Optional[str] = ..., screenshot_path: _Optional[str] = ..., cursor_position: _Optional[_Union[Coordinate, _Mapping]] = ...) -> None: ...

class ComputerUseError(_message.Message):
    __slots__ = ("error", "action_count", "duration_ms", "log", "screenshot", "screenshot_path")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ACTION_COUNT_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    SCREENSHOT_FIELD_NUMBER: _ClassVar[int]
    SCREENSHOT_PATH_FIELD_NUMBER: _ClassVar[int]
    error: str
    action_count: int
    duration_ms: int
    log: str
    screenshot: str
    screenshot_path: str
    def __init__(self, error: _Optional[str] = ..., action_count: _Optional[int] = ..., duration_ms: _Optional[int] = ..., log: _Optional[str] = ..., screenshot: _Optional[str] = ..., screenshot_path: _Optional[str] = ...) -> None: ...

class SubagentArgs(_message.Message):
    __slots__ = ("tool_call_id", "subagent_type", "model_id", "prompt", "readonly", "resume_agent_id", "run_in_background", "continuation_config", "parent_conversation_id", "api_key_credentials", "azure_credentials", "bedrock_credentials", "interrupt", "mode", "fork_agent_id", "root_parent_conversation_id", "selected_context", "direct_meta_parent_child_subagent", "environment", "cloud_base_branch", "model_parameters")
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    READONLY_FIELD_NUMBER: _ClassVar[int]
    RESUME_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_IN_BACKGROUND_FIELD_NUMBER: _ClassVar[int]
    CONTINUATION_CONFIG_FIELD_NUMBER: _ClassVar[int]
    PARENT_CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    API_KEY_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    AZURE_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    BEDROCK_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    INTERRUPT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FORK_AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_PARENT_CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    SELECTED_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    DIRECT_META_PARENT_CHILD_SUBAGENT_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENT_FIELD_NUMBER: _ClassVar[int]
    CLOUD_BASE_BRANCH_FIELD_NUMBER: _ClassVar[int]
    MODEL_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    subagent_type: str
    model_id: str
    prompt: str
    readonly: bool
    resume_agent_id: str
    run_in_background: bool
    continuation_config: _shared_pb2.Opaque
    parent_conversation_id: str
    api_key_credentials: _shared_pb2.Opaque
    azure_credentials: _shared_pb2.Opaque
    bedrock_credentials: _shared_pb2.Opaque
    interrupt: bool
    mode: int
    fork_agent_id: str
    root_parent_conversation_id: str
    selected_context: _shared_pb2.SelectedContext
    direct_meta_parent_child_subagent: bool
    environment: int
    cloud_base_branch: str
    model_parameters: _containers.RepeatedCompositeFieldContainer[_shared_pb2.RequestedModel.ModelParameterValue]
    def __init__(self, tool_call_id: _Optional[str] = ..., subagent_type: _Optional[str] = ..., model_id: _Optional[str] = ..., prompt: _Optional[str] = ..., readonly: _Optional[bool] = ..., resume_agent_id: _Optional[str] = ..., run_in_background: _Optional[bool] = ..., continuation_config: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., parent_conversation_id: _Optional[str] = ..., api_key_credentials: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., azure_credentials: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., bedrock_credentials: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., interrupt: _Optional[bool] = ..., mode: _Optional[int] = ..., fork_agent_id: _Optional[str] = ..., root_parent_conversation_id: _Optional[str] = ..., selected_context: _Optional[_Union[_shared_pb2.SelectedContext, _Mapping]] = ..., direct_meta_parent_child_subagent: _Optional[bool] = ..., environment: _Optional[int] = ..., cloud_base_branch: _Optional[str] = ..., model_parameters: _Optional[_Iterable[_Union[_shared_pb2.RequestedModel.ModelParameterValue, _Mapping]]] = ...) -> None: ...

class SubagentResult(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: SubagentSuccess
    error: SubagentError
    def __init__(self, success: _Optional[_Union[SubagentSuccess, _Mapping]] = ..., error: _Optional[_Union[SubagentError, _Mapping]] = ...) -> None: ...

class SubagentSuccess(_message.Message):
    __slots__ = ("agent_id", "final_message", "tool_call_count", "background_reason", "transcript_path")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    FINAL_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_COUNT_FIELD_NUMBER: _ClassVar[int]
    BACKGROUND_REASON_FIELD_NUMBER: _ClassVar[int]
    TRANSCRIPT_PATH_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    final_message: str
    tool_call_count: int
    background_reason: int
    transcript_path: str
    def __init__(self, agent_id: _Optional[str] = ..., final_message: _Optional[str] = ..., tool_call_count: _Optional[int] = ..., background_reason: _Optional[int] = ..., transcript_path: _Optional[str] = ...) -> None: ...

class SubagentError(_message.Message):
    __slots__ = ("agent_id", "error")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    error: str
    def __init__(self, agent_id: _Optional[str] = ..., error: _Optional[str] = ...) -> None: ...

class SubagentAwaitArgs(_message.Message):
    __slots__ = ("agent_id", "timeout_ms")
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    agent_id: str
    timeout_ms: int
    def __init__(self, agent_id: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class SubagentAwaitResult(_message.Message):
    __slots__ = ("complete", "still_running", "not_found", "error")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    STILL_RUNNING_FIELD_NUMBER: _ClassVar[int]
    NOT_FOUND_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    complete: _shared_pb2.Opaque
    still_running: _shared_pb2.Opaque
    not_found: SubagentAwaitNotFound
    error: _shared_pb2.Opaque
    def __init__(self, complete: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., still_running: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., not_found: _Optional[_Union[SubagentAwaitNotFound, _Mapping]] = ..., error: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class SmartModeClassifierArgs(_message.Message):
    __slots__ = ("tool_call_id", "parent_conversation_id", "target", "conversation_context")
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    tool_call_id: str
    parent_conversation_id: str
    target: _shared_pb2.Opaque
    conversation_context: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    def __init__(self, tool_call_id: _Optional[str] = ..., parent_conversation_id: _Optional[str] = ..., target: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., conversation_context: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ...) -> None: ...

class SmartModeClassifierResult(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: _shared_pb2.Opaque
    error: SmartModeClassifierError
    def __init__(self, success: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., error: _Optional[_Union[SmartModeClassifierError, _Mapping]] = ...) -> None: ...

class SmartModeClassifierError(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class ExecuteHookArgs(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: ExecuteHookRequest
    def __init__(self, request: _Optional[_Union[ExecuteHookRequest, _Mapping]] = ...) -> None: ...

class ExecuteHookRequest(_message.Message):
    __slots__ = ("pre_compact", "subagent_start", "subagent_stop", "pre_tool_use", "post_tool_use", "post_tool_use_failure", "before_submit_prompt", "after_agent_response", "after_agent_thought", "stop")
    PRE_COMPACT_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_START_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_STOP_FIELD_NUMBER: _ClassVar[int]
    PRE_TOOL_USE_FIELD_NUMBER: _ClassVar[int]
    POST_TOOL_USE_FIELD_NUMBER: _ClassVar[int]
    POST_TOOL_USE_FAILURE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_SUBMIT_PROMPT_FIELD_NUMBER: _ClassVar[int]
    AFTER_AGENT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    AFTER_AGENT_THOUGHT_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    pre_compact: _shared_pb2.Opaque
    subagent_start: _shared_pb2.Opaque
    subagent_stop: _shared_pb2.Opaque
    pre_tool_use: _shared_pb2.Opaque
    post_tool_use: _shared_pb2.Opaque
    post_tool_use_failure: _shared_pb2.Opaque
    before_submit_prompt: _shared_pb2.Opaque
    after_agent_response: _shared_pb2.Opaque
    after_agent_thought: _shared_pb2.Opaque
    stop: _shared_pb2.Opaque
    def __init__(self, pre_compact: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., subagent_start: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., subagent_stop: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., pre_tool_use: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., post_tool_use: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., post_tool_use_failure: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., before_submit_prompt: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., after_agent_response: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., after_agent_thought: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., stop: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class ExecuteHookResult(_message.Message):
    __slots__ = ("response",)
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    response: _shared_pb2.Opaque
    def __init__(self, response: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class McpApproved(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RecordScreenDiscardSuccess(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SubagentAwaitNotFound(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
