from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AGENT_MODE_UNSPECIFIED: _ClassVar[AgentMode]
    AGENT_MODE_AGENT: _ClassVar[AgentMode]
    AGENT_MODE_ASK: _ClassVar[AgentMode]
    AGENT_MODE_PLAN: _ClassVar[AgentMode]
    AGENT_MODE_DEBUG: _ClassVar[AgentMode]
    AGENT_MODE_TRIAGE: _ClassVar[AgentMode]
    AGENT_MODE_PROJECT: _ClassVar[AgentMode]
    AGENT_MODE_MULTITASK: _ClassVar[AgentMode]
    AGENT_MODE_CUSTOM: _ClassVar[AgentMode]

class ThinkingStyle(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    THINKING_STYLE_UNSPECIFIED: _ClassVar[ThinkingStyle]
    THINKING_STYLE_DEFAULT: _ClassVar[ThinkingStyle]
    THINKING_STYLE_CODEX: _ClassVar[ThinkingStyle]
    THINKING_STYLE_GPT5: _ClassVar[ThinkingStyle]

class TimeoutBehavior(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TIMEOUT_BEHAVIOR_UNSPECIFIED: _ClassVar[TimeoutBehavior]
    TIMEOUT_BEHAVIOR_CANCEL: _ClassVar[TimeoutBehavior]
    TIMEOUT_BEHAVIOR_BACKGROUND: _ClassVar[TimeoutBehavior]

class ShellAbortReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHELL_ABORT_REASON_UNSPECIFIED: _ClassVar[ShellAbortReason]
    SHELL_ABORT_REASON_USER_ABORT: _ClassVar[ShellAbortReason]
    SHELL_ABORT_REASON_TIMEOUT: _ClassVar[ShellAbortReason]

class ShellBackgroundReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SHELL_BACKGROUND_REASON_UNSPECIFIED: _ClassVar[ShellBackgroundReason]
    SHELL_BACKGROUND_REASON_TIMEOUT: _ClassVar[ShellBackgroundReason]
    SHELL_BACKGROUND_REASON_USER_REQUEST: _ClassVar[ShellBackgroundReason]

class ForceBackgroundShellStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FORCE_BACKGROUND_SHELL_STATUS_UNSPECIFIED: _ClassVar[ForceBackgroundShellStatus]
    FORCE_BACKGROUND_SHELL_STATUS_ACCEPTED: _ClassVar[ForceBackgroundShellStatus]
    FORCE_BACKGROUND_SHELL_STATUS_NOT_FOUND: _ClassVar[ForceBackgroundShellStatus]

class DiagnosticSeverity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DIAGNOSTIC_SEVERITY_UNSPECIFIED: _ClassVar[DiagnosticSeverity]
    DIAGNOSTIC_SEVERITY_ERROR: _ClassVar[DiagnosticSeverity]
    DIAGNOSTIC_SEVERITY_WARNING: _ClassVar[DiagnosticSeverity]
    DIAGNOSTIC_SEVERITY_INFORMATION: _ClassVar[DiagnosticSeverity]
    DIAGNOSTIC_SEVERITY_HINT: _ClassVar[DiagnosticSeverity]

class TodoStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TODO_STATUS_UNSPECIFIED: _ClassVar[TodoStatus]
    TODO_STATUS_PENDING: _ClassVar[TodoStatus]
    TODO_STATUS_IN_PROGRESS: _ClassVar[TodoStatus]
    TODO_STATUS_COMPLETED: _ClassVar[TodoStatus]
    TODO_STATUS_CANCELLED: _ClassVar[TodoStatus]

class RecordingMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECORDING_MODE_UNSPECIFIED: _ClassVar[RecordingMode]
    RECORDING_MODE_START: _ClassVar[RecordingMode]
    RECORDING_MODE_SAVE: _ClassVar[RecordingMode]
    RECORDING_MODE_DISCARD: _ClassVar[RecordingMode]

class MouseButton(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MOUSE_BUTTON_UNSPECIFIED: _ClassVar[MouseButton]
    MOUSE_BUTTON_LEFT: _ClassVar[MouseButton]
    MOUSE_BUTTON_RIGHT: _ClassVar[MouseButton]
    MOUSE_BUTTON_MIDDLE: _ClassVar[MouseButton]
    MOUSE_BUTTON_BACK: _ClassVar[MouseButton]
    MOUSE_BUTTON_FORWARD: _ClassVar[MouseButton]

class ScrollDirection(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCROLL_DIRECTION_UNSPECIFIED: _ClassVar[ScrollDirection]
    SCROLL_DIRECTION_UP: _ClassVar[ScrollDirection]
    SCROLL_DIRECTION_DOWN: _ClassVar[ScrollDirection]
    SCROLL_DIRECTION_LEFT: _ClassVar[ScrollDirection]
    SCROLL_DIRECTION_RIGHT: _ClassVar[ScrollDirection]

class CursorRuleSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CURSOR_RULE_SOURCE_UNSPECIFIED: _ClassVar[CursorRuleSource]
    CURSOR_RULE_SOURCE_TEAM: _ClassVar[CursorRuleSource]
    CURSOR_RULE_SOURCE_USER: _ClassVar[CursorRuleSource]
AGENT_MODE_UNSPECIFIED: AgentMode
AGENT_MODE_AGENT: AgentMode
AGENT_MODE_ASK: AgentMode
AGENT_MODE_PLAN: AgentMode
AGENT_MODE_DEBUG: AgentMode
AGENT_MODE_TRIAGE: AgentMode
AGENT_MODE_PROJECT: AgentMode
AGENT_MODE_MULTITASK: AgentMode
AGENT_MODE_CUSTOM: AgentMode
THINKING_STYLE_UNSPECIFIED: ThinkingStyle
THINKING_STYLE_DEFAULT: ThinkingStyle
THINKING_STYLE_CODEX: ThinkingStyle
THINKING_STYLE_GPT5: ThinkingStyle
TIMEOUT_BEHAVIOR_UNSPECIFIED: TimeoutBehavior
TIMEOUT_BEHAVIOR_CANCEL: TimeoutBehavior
TIMEOUT_BEHAVIOR_BACKGROUND: TimeoutBehavior
SHELL_ABORT_REASON_UNSPECIFIED: ShellAbortReason
SHELL_ABORT_REASON_USER_ABORT: ShellAbortReason
SHELL_ABORT_REASON_TIMEOUT: ShellAbortReason
SHELL_BACKGROUND_REASON_UNSPECIFIED: ShellBackgroundReason
SHELL_BACKGROUND_REASON_TIMEOUT: ShellBackgroundReason
SHELL_BACKGROUND_REASON_USER_REQUEST: ShellBackgroundReason
FORCE_BACKGROUND_SHELL_STATUS_UNSPECIFIED: ForceBackgroundShellStatus
FORCE_BACKGROUND_SHELL_STATUS_ACCEPTED: ForceBackgroundShellStatus
FORCE_BACKGROUND_SHELL_STATUS_NOT_FOUND: ForceBackgroundShellStatus
DIAGNOSTIC_SEVERITY_UNSPECIFIED: DiagnosticSeverity
DIAGNOSTIC_SEVERITY_ERROR: DiagnosticSeverity
DIAGNOSTIC_SEVERITY_WARNING: DiagnosticSeverity
DIAGNOSTIC_SEVERITY_INFORMATION: DiagnosticSeverity
DIAGNOSTIC_SEVERITY_HINT: DiagnosticSeverity
TODO_STATUS_UNSPECIFIED: TodoStatus
TODO_STATUS_PENDING: TodoStatus
TODO_STATUS_IN_PROGRESS: TodoStatus
TODO_STATUS_COMPLETED: TodoStatus
TODO_STATUS_CANCELLED: TodoStatus
RECORDING_MODE_UNSPECIFIED: RecordingMode
RECORDING_MODE_START: RecordingMode
RECORDING_MODE_SAVE: RecordingMode
RECORDING_MODE_DISCARD: RecordingMode
MOUSE_BUTTON_UNSPECIFIED: MouseButton
MOUSE_BUTTON_LEFT: MouseButton
MOUSE_BUTTON_RIGHT: MouseButton
MOUSE_BUTTON_MIDDLE: MouseButton
MOUSE_BUTTON_BACK: MouseButton
MOUSE_BUTTON_FORWARD: MouseButton
SCROLL_DIRECTION_UNSPECIFIED: ScrollDirection
SCROLL_DIRECTION_UP: ScrollDirection
SCROLL_DIRECTION_DOWN: ScrollDirection
SCROLL_DIRECTION_LEFT: ScrollDirection
SCROLL_DIRECTION_RIGHT: ScrollDirection
CURSOR_RULE_SOURCE_UNSPECIFIED: CursorRuleSource
CURSOR_RULE_SOURCE_TEAM: CursorRuleSource
CURSOR_RULE_SOURCE_USER: CursorRuleSource

class Opaque(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class SystemPromptSpec(_message.Message):
    __slots__ = ("replace", "append")
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    APPEND_FIELD_NUMBER: _ClassVar[int]
    replace: str
    append: str
    def __init__(self, replace: _Optional[str] = ..., append: _Optional[str] = ...) -> None: ...

class ModelDetails(_message.Message):
    __slots__ = ("model_id", "thinking_details", "display_model_id", "display_name", "display_name_short", "aliases", "max_mode", "api_key_credentials", "azure_credentials", "bedrock_credentials")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    THINKING_DETAILS_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_SHORT_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    MAX_MODE_FIELD_NUMBER: _ClassVar[int]
    API_KEY_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    AZURE_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    BEDROCK_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    thinking_details: ThinkingDetails
    display_model_id: str
    display_name: str
    display_name_short: str
    aliases: _containers.RepeatedScalarFieldContainer[str]
    max_mode: bool
    api_key_credentials: Opaque
    azure_credentials: Opaque
    bedrock_credentials: Opaque
    def __init__(self, model_id: _Optional[str] = ..., thinking_details: _Optional[_Union[ThinkingDetails, _Mapping]] = ..., display_model_id: _Optional[str] = ..., display_name: _Optional[str] = ..., display_name_short: _Optional[str] = ..., aliases: _Optional[_Iterable[str]] = ..., max_mode: _Optional[bool] = ..., api_key_credentials: _Optional[_Union[Opaque, _Mapping]] = ..., azure_credentials: _Optional[_Union[Opaque, _Mapping]] = ..., bedrock_credentials: _Optional[_Union[Opaque, _Mapping]] = ...) -> None: ...

class ThinkingDetails(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class RequestedModel(_message.Message):
    __slots__ = ("model_id", "max_mode", "parameters", "api_key_credentials", "azure_credentials", "bedrock_credentials", "built_in_model", "is_variant_string_representation")
    class ModelParameterValue(_message.Message):
        __slots__ = ("id", "value")
        ID_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        id: str
        value: str
        def __init__(self, id: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_MODE_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    API_KEY_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    AZURE_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    BEDROCK_CREDENTIALS_FIELD_NUMBER: _ClassVar[int]
    BUILT_IN_MODEL_FIELD_NUMBER: _ClassVar[int]
    IS_VARIANT_STRING_REPRESENTATION_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    max_mode: bool
    parameters: _containers.RepeatedCompositeFieldContainer[RequestedModel.ModelParameterValue]
    api_key_credentials: Opaque
    azure_credentials: Opaque
    bedrock_credentials: Opaque
    built_in_model: bool
    is_variant_string_representation: bool
    def __init__(self, model_id: _Optional[str] = ..., max_mode: _Optional[bool] = ..., parameters: _Optional[_Iterable[_Union[RequestedModel.ModelParameterValue, _Mapping]]] = ..., api_key_credentials: _Optional[_Union[Opaque, _Mapping]] = ..., azure_credentials: _Optional[_Union[Opaque, _Mapping]] = ..., bedrock_credentials: _Optional[_Union[Opaque, _Mapping]] = ..., built_in_model: _Optional[bool] = ..., is_variant_string_representation: _Optional[bool] = ...) -> None: ...

class McpTools(_message.Message):
    __slots__ = ("mcp_tools",)
    MCP_TOOLS_FIELD_NUMBER: _ClassVar[int]
    mcp_tools: _containers.RepeatedCompositeFieldContainer[McpToolDefinition]
    def __init__(self, mcp_tools: _Optional[_Iterable[_Union[McpToolDefinition, _Mapping]]] = ...) -> None: ...

class McpToolDefinition(_message.Message):
    __slots__ = ("name", "description", "input_schema", "provider_identifier", "tool_name", "input_schema_json", "output_schema_json", "annotations_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    input_schema: _struct_pb2.Value
    provider_identifier: str
    tool_name: str
    input_schema_json: str
    output_schema_json: str
    annotations_json: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., input_schema: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., provider_identifier: _Optional[str] = ..., tool_name: _Optional[str] = ..., input_schema_json: _Optional[str] = ..., output_schema_json: _Optional[str] = ..., annotations_json: _Optional[str] = ...) -> None: ...

class McpFileSystemOptions(_message.Message):
    __slots__ = ("enabled", "workspace_project_dir", "mcp_descriptors")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_PROJECT_DIR_FIELD_NUMBER: _ClassVar[int]
    MCP_DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    workspace_project_dir: str
    mcp_descriptors: _containers.RepeatedCompositeFieldContainer[McpDescriptor]
    def __init__(self, enabled: _Optional[bool] = ..., workspace_project_dir: _Optional[str] = ..., mcp_descriptors: _Optional[_Iterable[_Union[McpDescriptor, _Mapping]]] = ...) -> None: ...

class McpMetaToolOptions(_message.Message):
    __slots__ = ("enabled", "mcp_descriptors")
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    MCP_DESCRIPTORS_FIELD_NUMBER: _ClassVar[int]
    enabled: bool
    mcp_descriptors: _containers.RepeatedCompositeFieldContainer[McpDescriptor]
    def __init__(self, enabled: _Optional[bool] = ..., mcp_descriptors: _Optional[_Iterable[_Union[McpDescriptor, _Mapping]]] = ...) -> None: ...

class McpDescriptor(_message.Message):
    __slots__ = ("server_name", "server_identifier", "folder_path", "server_use_instructions", "tools", "plugin", "marketplace", "plugin_db_id", "marketplace_id")
    SERVER_NAME_FIELD_NUMBER: _ClassVar[int]
    SERVER_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    FOLDER_PATH_FIELD_NUMBER: _ClassVar[int]
    SERVER_USE_INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    MARKETPLACE_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_DB_ID_FIELD_NUMBER: _ClassVar[int]
    MARKETPLACE_ID_FIELD_NUMBER: _ClassVar[int]
    server_name: str
    server_identifier: str
    folder_path: str
    server_use_instructions: str
    tools: _containers.RepeatedCompositeFieldContainer[McpToolDescriptor]
    plugin: str
    marketplace: str
    plugin_db_id: str
    marketplace_id: str
    def __init__(self, server_name: _Optional[str] = ..., server_identifier: _Optional[str] = ..., folder_path: _Optional[str] = ..., server_use_instructions: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[McpToolDescriptor, _Mapping]]] = ..., plugin: _Optional[str] = ..., marketplace: _Optional[str] = ..., plugin_db_id: _Optional[str] = ..., marketplace_id: _Optional[str] = ...) -> None: ...

class McpToolDescriptor(_message.Message):
    __slots__ = ("tool_name", "definition_path", "description", "input_schema", "input_schema_json", "annotations_json")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_PATH_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    definition_path: str
    description: str
    input_schema: _struct_pb2.Value
    input_schema_json: str
    annotations_json: str
    def __init__(self, tool_name: _Optional[str] = ..., definition_path: _Optional[str] = ..., description: _Optional[str] = ..., input_schema: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., input_schema_json: _Optional[str] = ..., annotations_json: _Optional[str] = ...) -> None: ...

class McpInstructions(_message.Message):
    __slots__ = ("server_name", "instructions", "server_identifier")
    SERVER_NAME_FIELD_NUMBER: _ClassVar[int]
    INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    SERVER_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    server_name: str
    instructions: str
    server_identifier: str
    def __init__(self, server_name: _Optional[str] = ..., instructions: _Optional[str] = ..., server_identifier: _Optional[str] = ...) -> None: ...

class SelectedContext(_message.Message):
    __slots__ = ("selected_images", "invocation_context", "extra_context", "files", "code_selections", "terminals", "folders", "cursor_rules", "cursor_commands", "extra_context_entries", "selected_documents")
    SELECTED_IMAGES_FIELD_NUMBER: _ClassVar[int]
    INVOCATION_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    EXTRA_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    CODE_SELECTIONS_FIELD_NUMBER: _ClassVar[int]
    TERMINALS_FIELD_NUMBER: _ClassVar[int]
    FOLDERS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_RULES_FIELD_NUMBER: _ClassVar[int]
    CURSOR_COMMANDS_FIELD_NUMBER: _ClassVar[int]
    EXTRA_CONTEXT_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SELECTED_DOCUMENTS_FIELD_NUMBER: _ClassVar[int]
    selected_images: _containers.RepeatedCompositeFieldContainer[SelectedImage]
    invocation_context: Opaque
    extra_context: _containers.RepeatedScalarFieldContainer[str]
    files: _containers.RepeatedCompositeFieldContainer[SelectedFile]
    code_selections: _containers.RepeatedCompositeFieldContainer[Opaque]
    terminals: _containers.RepeatedCompositeFieldContainer[Opaque]
    folders: _containers.RepeatedCompositeFieldContainer[Opaque]
    cursor_rules: _containers.RepeatedCompositeFieldContainer[Opaque]
    cursor_commands: _containers.RepeatedCompositeFieldContainer[Opaque]
    extra_context_entries: _containers.RepeatedCompositeFieldContainer[Opaque]
    selected_documents: _containers.RepeatedCompositeFieldContainer[Opaque]
    def __init__(self, selected_images: _Optional[_Iterable[_Union[SelectedImage, _Mapping]]] = ..., invocation_context: _Optional[_Union[Opaque, _Mapping]] = ..., extra_context: _Optional[_Iterable[str]] = ..., files: _Optional[_Iterable[_Union[SelectedFile, _Mapping]]] = ..., code_selections: _Optional[_Iterable[_Union[Opaque, _Mapping]]] = ..., terminals: _Optional[_Iterable[_Union[Opaque, _Mapping]]] = ..., folders: _Optional[_Iterable[_Union[Opaque, _Mapping]]] = ..., cursor_rules: _Optional[_Iterable[_Union[Opaque, _Mapping]]] = ..., cursor_commands: _Optional[_Iterable[_Union[Opaque, _Mapping]]] = ..., extra_context_entries: _Optional[_Iterable[_Union[Opaque, _Mapping]]] = ..., selected_documents: _Optional[_Iterable[_Union[Opaque, _Mapping]]] = ...) -> None: ...

class SelectedImage(_message.Message):
    __slots__ = ("blob_id", "data", "blob_id_with_data", "prompt_upload_ref", "uuid", "path", "dimension", "mime_type")
    class Dimension(_message.Message):
        __slots__ = ("width", "height")
        WIDTH_FIELD_NUMBER: _ClassVar[int]
        HEIGHT_FIELD_NUMBER: _ClassVar[int]
        width: int
        height: int
        def __init__(self, width: _Optional[int] = ..., height: _Optional[int] = ...) -> None: ...
    class BlobIdWithData(_message.Message):
        __slots__ = ("blob_id", "data")
        BLOB_ID_FIELD_NUMBER: _ClassVar[int]
        DATA_FIELD_NUMBER: _ClassVar[int]
        blob_id: bytes
        data: bytes
        def __init__(self, blob_id: _Optional[bytes] = ..., data: _Optional[bytes] = ...) -> None: ...
    BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    BLOB_ID_WITH_DATA_FIELD_NUMBER: _ClassVar[int]
    PROMPT_UPLOAD_REF_FIELD_NUMBER: _ClassVar[int]
    UUID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    DIMENSION_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    blob_id: bytes
    data: bytes
    blob_id_with_data: SelectedImage.BlobIdWithData
    prompt_upload_ref: Opaque
    uuid: str
    path: str
    dimension: SelectedImage.Dimension
    mime_type: str
    def __init__(self, blob_id: _Optional[bytes] = ..., data: _Optional[bytes] = ..., blob_id_with_data: _Optional[_Union[SelectedImage.BlobIdWithData, _Mapping]] = ..., prompt_upload_ref: _Optional[_Union[Opaque, _Mapping]] = ..., uuid: _Optional[str] = ..., path: _Optional[str] = ..., dimension: _Optional[_Union[SelectedImage.Dimension, _Mapping]] = ..., mime_type: _Optional[str] = ...) -> None: ...

class SelectedFile(_message.Message):
    __slots__ = ("content", "path", "relative_path")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_PATH_FIELD_NUMBER: _ClassVar[int]
    content: str
    path: str
    relative_path: str
    def __init__(self, content: _Optional[str] = ..., path: _Optional[str] = ..., relative_path: _Optional[str] = ...) -> None: ...

class TodoItem(_message.Message):
    __slots__ = ("id", "content", "status", "created_at", "updated_at", "dependencies")
    ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    DEPENDENCIES_FIELD_NUMBER: _ClassVar[int]
    id: str
    content: str
    status: TodoStatus
    created_at: int
    updated_at: int
    dependencies: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, id: _Optional[str] = ..., content: _Optional[str] = ..., status: _Optional[_Union[TodoStatus, str]] = ..., created_at: _Optional[int] = ..., updated_at: _Optional[int] = ..., dependencies: _Optional[_Iterable[str]] = ...) -> None: ...

class SpanContext(_message.Message):
    __slots__ = ("trace_id", "span_id", "trace_flags", "trace_state")
    TRACE_ID_FIELD_NUMBER: _ClassVar[int]
    SPAN_ID_FIELD_NUMBER: _ClassVar[int]
    TRACE_FLAGS_FIELD_NUMBER: _ClassVar[int]
    TRACE_STATE_FIELD_NUMBER: _ClassVar[int]
    trace_id: str
    span_id: str
    trace_flags: int
    trace_state: str
    def __init__(self, trace_id: _Optional[str] = ..., span_id: _Optional[str] = ..., trace_flags: _Optional[int] = ..., trace_state: _Optional[str] = ...) -> None: ...

class HookAdditionalContext(_message.Message):
    __slots__ = ("hook_event_name", "content")
    HOOK_EVENT_NAME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    hook_event_name: str
    content: str
    def __init__(self, hook_event_name: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class OutputLocation(_message.Message):
    __slots__ = ("file_path", "size_bytes", "line_count")
    FILE_PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    LINE_COUNT_FIELD_NUMBER: _ClassVar[int]
    file_path: str
    size_bytes: int
    line_count: int
    def __init__(self, file_path: _Optional[str] = ..., size_bytes: _Optional[int] = ..., line_count: _Optional[int] = ...) -> None: ...

class SmartModeApproval(_message.Message):
    __slots__ = ("request_id", "reason")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    reason: str
    def __init__(self, request_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
