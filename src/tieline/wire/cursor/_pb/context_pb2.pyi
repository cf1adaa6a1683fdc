from tieline.wire.cursor._pb import exec_kinds_pb2 as _exec_kinds_pb2
from tieline.wire.cursor._pb import shared_pb2 as _shared_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RequestContext(_message.Message):
    __slots__ = ("rules", "env", "repository_info", "tools", "conversation_notes_listing", "shared_notes_listing", "git_repos", "project_layouts", "mcp_instructions", "debug_mode_config", "cloud_rule", "web_search_enabled", "skill_options", "repository_info_should_query_prod", "file_contents", "user_intent_summary", "custom_subagents", "mcp_file_system_options", "web_fetch_enabled", "hooks_additional_context", "commit_attribution_message", "pr_attribution_message", "hooks_config", "agent_skills", "precomputed_human_changes", "recently_added_plugin", "supports_mcp_auth", "git_repo_info_complete", "mcp_meta_tool_options", "read_lints_enabled", "mcp_info_complete", "non_file_rules", "matched_installed_plugin", "rules_info_complete", "env_info_complete", "repository_info_complete", "custom_subagents_info_complete", "agent_skills_info_complete", "mcp_file_system_info_complete", "git_status_info_complete", "user_permissions_auto_run", "project_permissions_auto_run", "admin_permissions_auto_run", "disabled_team_rules", "search_conversations_enabled", "send_message_enabled", "admin_command_denylist", "system_prompt_override")
    class FileContentsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RULES_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    REPOSITORY_INFO_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_NOTES_LISTING_FIELD_NUMBER: _ClassVar[int]
    SHARED_NOTES_LISTING_FIELD_NUMBER: _ClassVar[int]
    GIT_REPOS_FIELD_NUMBER: _ClassVar[int]
    PROJECT_LAYOUTS_FIELD_NUMBER: _ClassVar[int]
    MCP_INSTRUCTIONS_FIELD_NUMBER: _ClassVar[int]
    DEBUG_MODE_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CLOUD_RULE_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_ENABLED_FIELD_NUMBER: _ClassVar[int]
    SKILL_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    REPOSITORY_INFO_SHOULD_QUERY_PROD_FIELD_NUMBER: _ClassVar[int]
    FILE_CONTENTS_FIELD_NUMBER: _ClassVar[int]
    USER_INTENT_SUMMARY_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_SUBAGENTS_FIELD_NUMBER: _ClassVar[int]
    MCP_FILE_SYSTEM_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    WEB_FETCH_ENABLED_FIELD_NUMBER: _ClassVar[int]
    HOOKS_ADDITIONAL_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_ATTRIBUTION_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    PR_ATTRIBUTION_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HOOKS_CONFIG_FIELD_NUMBER: _ClassVar[int]
    AGENT_SKILLS_FIELD_NUMBER: _ClassVar[int]
    PRECOMPUTED_HUMAN_CHANGES_FIELD_NUMBER: _ClassVar[int]
    RECENTLY_ADDED_PLUGIN_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_MCP_AUTH_FIELD_NUMBER: _ClassVar[int]
    GIT_REPO_INFO_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    MCP_META_TOOL_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    READ_LINTS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    MCP_INFO_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    NON_FILE_RULES_FIELD_NUMBER: _ClassVar[int]
    MATCHED_INSTALLED_PLUGIN_FIELD_NUMBER: _ClassVar[int]
    RULES_INFO_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ENV_INFO_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    REPOSITORY_INFO_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_SUBAGENTS_INFO_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    AGENT_SKILLS_INFO_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    MCP_FILE_SYSTEM_INFO_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    GIT_STATUS_INFO_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    USER_PERMISSIONS_AUTO_RUN_FIELD_NUMBER: _ClassVar[int]
    PROJECT_PERMISSIONS_AUTO_RUN_FIELD_NUMBER: _ClassVar[int]
    ADMIN_PERMISSIONS_AUTO_RUN_FIELD_NUMBER: _ClassVar[int]
    DISABLED_TEAM_RULES_FIELD_NUMBER: _ClassVar[int]
    SEARCH_CONVERSATIONS_ENABLED_FIELD_NUMBER: _ClassVar[int]
    SEND_MESSAGE_ENABLED_FIELD_NUMBER: _ClassVar[int]
    ADMIN_COMMAND_DENYLIST_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_PROMPT_OVERRIDE_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[CursorRule]
    env: RequestContextEnv
    repository_info: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    tools: _containers.RepeatedCompositeFieldContainer[_shared_pb2.McpToolDefinition]
    conversation_notes_listing: str
    shared_notes_listing: str
    git_repos: _containers.RepeatedCompositeFieldContainer[GitRepoInfo]
    project_layouts: _containers.RepeatedCompositeFieldContainer[_exec_kinds_pb2.LsDirectoryTreeNode]
    mcp_instructions: _containers.RepeatedCompositeFieldContainer[_shared_pb2.McpInstructions]
    debug_mode_config: _shared_pb2.Opaque
    cloud_rule: str
    web_search_enabled: bool
    skill_options: _shared_pb2.Opaque
    repository_info_should_query_prod: bool
    file_contents: _containers.ScalarMap[str, str]
    user_intent_summary: str
    custom_subagents: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    mcp_file_system_options: _shared_pb2.McpFileSystemOptions
    web_fetch_enabled: bool
    hooks_additional_context: str
    commit_attribution_message: str
    pr_attribution_message: str
    hooks_config: _shared_pb2.Opaque
    agent_skills: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    precomputed_human_changes: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    recently_added_plugin: _shared_pb2.Opaque
    supports_mcp_auth: bool
    git_repo_info_complete: bool
    mcp_meta_tool_options: _shared_pb2.McpMetaToolOptions
    read_lints_enabled: bool
    mcp_info_complete: bool
    non_file_rules: _containers.RepeatedCompositeFieldContainer[CursorRule]
    matched_installed_plugin: _shared_pb2.Opaque
    rules_info_complete: bool
    env_info_complete: bool
    repository_info_complete: bool
    custom_subagents_info_complete: bool
    agent_skills_info_complete: bool
    mcp_file_system_info_complete: bool
    git_status_info_complete: bool
    user_permissions_auto_run: _shared_pb2.Opaque
    project_permissions_auto_run: _shared_pb2.Opaque
    admin_permissions_auto_run: _shared_pb2.Opaque
    disabled_team_rules: _containers.RepeatedScalarFieldContainer[str]
    search_conversations_enabled: bool
    send_message_enabled: bool
    admin_command_denylist: _containers.RepeatedScalarFieldContainer[str]
    system_prompt_override: _shared_pb2.SystemPromptSpec
    def __init__(self, rules: _Optional[_Iterable[_Union[CursorRule, _Mapping]]] = ..., env: _Optional[_Union[RequestContextEnv, _Mapping]] = ..., repository_info: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ..., tools: _Optional[_Iterable[_Union[_shared_pb2.McpToolDefinition, _Mapping]]] = ..., conversation_notes_listing: _Optional[str] = ..., shared_notes_listing: _Optional[str] = ..., git_repos: _Optional[_Iterable[_Union[GitRepoInfo, _Mapping]]] = ..., project_layouts: _Optional[_Iterable[_Union[_exec_kinds_pb2.LsDirectoryTreeNode, _Mapping]]] = ..., mcp_instructions: _Optional[_Iterable[_Union[_shared_pb2.McpInstructions, _Mapping]]] = ..., debug_mode_config: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., cloud_rule: _Optional[str] = ..., web_search_enabled: _Optional[bool] = ..., skill_options: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., repository_info_should_query_prod: _Optional[bool] = ..., file_contents: _Optional[_Mapping[str, str]] = ..., user_intent_summary: _Optional[str] = ..., custom_subagents: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ..., mcp_file_system_options: _Optional[_Union[_shared_pb2.McpFileSystemOptions, _Mapping]] = ..., web_fetch_enabled: _Optional[bool] = ..., hooks_additional_context: _Optional[str] = ..., commit_attribution_message: _Optional[str] = ..., pr_attribution_message: _Optional[str] = ..., hooks_config: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., agent_skills: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ..., precomputed_human_changes: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ..., recently_added_plugin: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., supports_mcp_auth: _Optional[bool] = ..., git_repo_info_complete: _Optional[bool] = ..., mcp_meta_tool_options: _Optional[_Union[_shared_pb2.McpMetaToolOptions, _Mapping]] = ..., read_lints_enabled: _Optional[bool] = ..., mcp_info_complete: _Optional[bool] = ..., non_file_rules: _Optional[_Iterable[_Union[CursorRule, _Mapping]]] = ..., matched_installed_plugin: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., rules_info_complete: _Optional[bool] = ..., env_info_complete: _Optional[bool] = ..., repository_info_complete: _Optional[bool] = ..., custom_subagents_info_complete: _Optional[bool] = ..., agent_skills_info_complete: _Optional[bool] = ..., mcp_file_system_info_complete: _Optional[bool] = ..., git_status_info_complete: _Optional[bool] = ..., user_permissions_auto_run: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., project_permissions_auto_run: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., admin_permissions_auto_run: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., disabled_team_rules: _Optional[_Iterable[str]] = ..., search_conversations_enabled: _Optional[bool] = ..., send_message_enabled: _Optional[bool] = ..., admin_command_denylist: _Optional[_Iterable[str]] = ..., system_prompt_override: _Optional[_Union[_shared_pb2.SystemPromptSpec, _Mapping]] = ...) -> None: ...

class RequestContextEnv(_message.Message):
    __slots__ = ("os_version", "workspace_paths", "shell", "sandbox_enabled", "terminals_folder", "agent_shared_notes_folder", "agent_conversation_notes_folder", "time_zone", "project_folder", "agent_transcripts_folder", "artifacts_folder", "sandbox_supported", "sandbox_network_has_defaults", "sandbox_network_explicit_allowlist", "secret_redaction_enabled", "computer_use_supported", "is_working_dir_home_dir", "process_working_directory", "smart_mode_classifier_auto_mode_enabled", "mounted_agent_stores")
    OS_VERSION_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_PATHS_FIELD_NUMBER: _ClassVar[int]
    SHELL_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_ENABLED_FIELD_NUMBER: _ClassVar[int]
    TERMINALS_FOLDER_FIELD_NUMBER: _ClassVar[int]
    AGENT_SHARED_NOTES_FOLDER_FIELD_NUMBER: _ClassVar[int]
    AGENT_CONVERSATION_NOTES_FOLDER_FIELD_NUMBER: _ClassVar[int]
    TIME_ZONE_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FOLDER_FIELD_NUMBER: _ClassVar[int]
    AGENT_TRANSCRIPTS_FOLDER_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FOLDER_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_SUPPORTED_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_NETWORK_HAS_DEFAULTS_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_NETWORK_EXPLICIT_ALLOWLIST_FIELD_NUMBER: _ClassVar[int]
    SECRET_REDACTION_ENABLED_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_USE_SUPPORTED_FIELD_NUMBER: _ClassVar[int]
    IS_WORKING_DIR_HOME_DIR_FIELD_NUMBER: _ClassVar[int]
    PROCESS_WORKING_DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    SMART_MODE_CLASSIFIER_AUTO_MODE_ENABLED_FIELD_NUMBER: _ClassVar[int]
    MOUNTED_AGENT_STORES_FIELD_NUMBER: _ClassVar[int]
    os_version: str
    workspace_paths: _containers.RepeatedScalarFieldContainer[str]
    shell: str
    sandbox_enabled: bool
    terminals_folder: str
    agent_shared_notes_folder: str
    agent_conversation_notes_folder: str
    time_zone: str
    project_folder: str
    agent_transcripts_folder: str
    artifacts_folder: str
    sandbox_supported: bool
    sandbox_network_has_defaults: bool
    sandbox_network_explicit_allowlist: _containers.RepeatedScalarFieldContainer[str]
    secret_redaction_enabled: bool
    computer_use_supported: bool
    is_working_dir_home_dir: bool
    process_working_directory: str
    smart_mode_classifier_auto_mode_enabled: bool
    mounted_agent_stores: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    def __init__(self, os_version: _Optional[str] = ..., workspace_paths: _Optional[_Iterable[str]] = ..., shell: _Optional[str] = ..., sandbox_enabled: _Optional[bool] = ..., terminals_folder: _Optional[str] = ..., agent_shared_notes_folder: _Optional[str] = ..., agent_conversation_notes_folder: _Optional[str] = ..., time_zone: _Optional[str] = ..., project_folder: _Optional[str] = ..., agent_transcripts_folder: _Optional[str] = ..., artifacts_folder: _Optional[str] = ..., sandbox_supported: _Optional[bool] = ..., sandbox_network_has_defaults: _Optional[bool] = ..., sandbox_network_explicit_allowlist: _Optional[_Iterable[str]] = ..., secret_redaction_enabled: _Optional[bool] = ..., computer_use_supported: _Optional[bool] = ..., is_working_dir_home_dir: _Optional[bool] = ..., process_working_directory: _Optional[str] = ..., smart_mode_classifier_auto_mode_enabled: _Optional[bool] = ..., mounted_agent_stores: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ...) -> None: ...

class CursorRule(_message.Message):
    __slots__ = ("full_path", "content", "type", "source", "git_remote_origin", "parse_error", "environments", "disabled_environments", "plugin", "marketplace", "plugin_id", "marketplace_id", "scoped_to", "frontmatter", "is_required")
    FULL_PATH_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    GIT_REMOTE_ORIGIN_FIELD_NUMBER: _ClassVar[int]
    PARSE_ERROR_FIELD_NUMBER: _ClassVar[int]
    ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    DISABLED_ENVIRONMENTS_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_FIELD_NUMBER: _ClassVar[int]
    MARKETPLACE_FIELD_NUMBER: _ClassVar[int]
    PLUGIN_ID_FIELD_NUMBER: _ClassVar[int]
    MARKETPLACE_ID_FIELD_NUMBER: _ClassVar[int]
    SCOPED_TO_FIELD_NUMBER: _ClassVar[int]
    FRONTMATTER_FIELD_NUMBER: _ClassVar[int]
    IS_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    full_path: str
    content: str
    type: CursorRuleType
    source: _shared_pb2.CursorRuleSource
    git_remote_origin: str
    parse_error: str
    environments: _containers.RepeatedScalarFieldContainer[str]
    disabled_environments: _containers.RepeatedScalarFieldContainer[str]
    plugin: str
    marketplace: str
    plugin_id: str
    marketplace_id: str
    scoped_to: _containers.RepeatedScalarFieldContainer[str]
    frontmatter: str
    is_required: bool
    def __init__(self, full_path: _Optional[str] = ..., content: _Optional[str] = ..., type: _Optional[_Union[CursorRuleType, _Mapping]] = ..., source: _Optional[_Union[_shared_pb2.CursorRuleSource, str]] = ..., git_remote_origin: _Optional[str] = ..., parse_error: _Optional[str] = ..., environments: _Optional[_Iterable[str]] = ..., disabled_environments: _Optional[_Iterable[str]] = ..., plugin: _Optional[str] = ..., marketplace: _Optional[str] = ..., plugin_id: _Optional[str] = ..., marketplace_id: _Optional[str] = ..., scoped_to: _Optional[_Iterable[str]] = ..., frontmatter: _Optional[str] = ..., is_required: _Optional[bool] = ...) -> None: ...

class CursorRuleType(_message.Message):
    __slots__ = ("file_globbed", "agent_fetched", "manually_attached")
    GLOBAL_FIELD_NUMBER: _ClassVar[int]
    FILE_GLOBBED_FIELD_NUMBER: _ClassVar[int]
    AGENT_FETCHED_FIELD_NUMBER: _ClassVar[int]
    MANUALLY_ATTACHED_FIELD_NUMBER: _ClassVar[int]
    file_globbed: CursorRuleTypeFileGlobs
    agent_fetched: CursorRuleTypeAgentFetched
    manually_attached: CursorRuleTypeManuallyAttached
    def __init__(self, file_globbed: _Optional[_Union[CursorRuleTypeFileGlobs, _Mapping]] = ..., agent_fetched: _Optional[_Union[CursorRuleTypeAgentFetched, _Mapping]] = ..., manually_attached: _Optional[_Union[CursorRuleTypeManuallyAttached, _Mapping]] = ..., **kwargs) -> None: ...

class CursorRuleTypeFileGlobs(_message.Message):
    __slots__ = ("globs",)
    GLOBS_FIELD_NUMBER: _ClassVar[int]
    globs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, globs: _Optional[_Iterable[str]] = ...) -> None: ...

class CursorRuleTypeAgentFetched(_message.Message):
    __slots__ = ("description",)
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    description: str
    def __init__(self, description: _Optional[str] = ...) -> None: ...

class GitRepoInfo(_message.Message):
    __slots__ = ("path", "status", "branch_name", "remote_url", "previous_branch_is_ancestor", "is_origin_backed")
    PATH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BRANCH_NAME_FIELD_NUMBER: _ClassVar[int]
    REMOTE_URL_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_BRANCH_IS_ANCESTOR_FIELD_NUMBER: _ClassVar[int]
    IS_ORIGIN_BACKED_FIELD_NUMBER: _ClassVar[int]
    path: str
    status: str
    branch_name: str
    remote_url: str
    previous_branch_is_ancestor: bool
    is_origin_backed: bool
    def __init__(self, path: _Optional[str] = ..., status: _Optional[str] = ..., branch_name: _Optional[str] = ..., remote_url: _Optional[str] = ..., previous_branch_is_ancestor: _Optional[bool] = ..., is_origin_backed: _Optional[bool] = ...) -> None: ...

class RequestContextArgs(_message.Message):
    __slots__ = ("notes_session_id", "workspace_id", "read_only_pinned_tree_sha", "read_only_plugin_cache_root", "use_cached", "wait_for_workspace_cache")
    NOTES_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WORKSPACE_ID_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_PINNED_TREE_SHA_FIELD_NUMBER: _ClassVar[int]
    READ_ONLY_PLUGIN_CACHE_ROOT_FIELD_NUMBER: _ClassVar[int]
    USE_CACHED_FIELD_NUMBER: _ClassVar[int]
    WAIT_FOR_WORKSPACE_CACHE_FIELD_NUMBER: _ClassVar[int]
    notes_session_id: str
    workspace_id: str
    read_only_pinned_tree_sha: str
    read_only_plugin_cache_root: str
    use_cached: bool
    wait_for_workspace_cache: bool
    def __init__(self, notes_session_id: _Optional[str] = ..., workspace_id: _Optional[str] = ..., read_only_pinned_tree_sha: _Optional[str] = ..., read_only_plugin_cache_root: _Optional[str] = ..., use_cached: _Optional[bool] = ..., wait_for_workspace_cache: _Optional[bool] = ...) -> None: ...

class RequestContextResult(_message.Message):
    __slots__ = ("success", "error", "rejected")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    success: RequestContextSuccess
    error: RequestContextError
    rejected: RequestContextRejected
    def __init__(self, success: _Optional[_Union[RequestContextSuccess, _Mapping]] = ..., error: _Optional[_Union[RequestContextError, _Mapping]] = ..., rejected: _Optional[_Union[RequestContextRejected, _Mapping]] = ...) -> None: ...

class RequestContextSuccess(_message.Message):
    __slots__ = ("request_context", "served_from_disk_cache")
    REQUEST_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SERVED_FROM_DISK_CACHE_FIELD_NUMBER: _ClassVar[int]
    request_context: RequestContext
    served_from_disk_cache: bool
    def __init__(self, request_context: _Optional[_Union[RequestContext, _Mapping]] = ..., served_from_disk_cache: _Optional[bool] = ...) -> None: ...

class RequestContextError(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class RequestContextRejected(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class RequestContextPartReferences(_message.Message):
    __slots__ = ("rules_blob_id", "rules_byte_length", "skills_blob_id", "skills_byte_length", "subagents_blob_id", "subagents_byte_length", "mcps_blob_id", "mcps_byte_length", "dynamic_context")
    RULES_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    RULES_BYTE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SKILLS_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    SKILLS_BYTE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    SUBAGENTS_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    SUBAGENTS_BYTE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    MCPS_BLOB_ID_FIELD_NUMBER: _ClassVar[int]
    MCPS_BYTE_LENGTH_FIELD_NUMBER: _ClassVar[int]
    DYNAMIC_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    rules_blob_id: bytes
    rules_byte_length: int
    skills_blob_id: bytes
    skills_byte_length: int
    subagents_blob_id: bytes
    subagents_byte_length: int
    mcps_blob_id: bytes
    mcps_byte_length: int
    dynamic_context: RequestContext
    def __init__(self, rules_blob_id: _Optional[bytes] = ..., rules_byte_length: _Optional[int] = ..., skills_blob_id: _Optional[bytes] = ..., skills_byte_length: _Optional[int] = ..., subagents_blob_id: _Optional[bytes] = ..., subagents_byte_length: _Optional[int] = ..., mcps_blob_id: _Optional[bytes] = ..., mcps_byte_length: _Optional[int] = ..., dynamic_context: _Optional[_Union[RequestContext, _Mapping]] = ...) -> None: ...

class CursorRuleTypeGlobal(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CursorRuleTypeManuallyAttached(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
