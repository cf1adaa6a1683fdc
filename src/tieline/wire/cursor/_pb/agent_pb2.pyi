from tieline.wire.cursor._pb import conversation_pb2 as _conversation_pb2
from tieline.wire.cursor._pb import exec_pb2 as _exec_pb2
from tieline.wire.cursor._pb import kv_pb2 as _kv_pb2
from tieline.wire.cursor._pb import queries_pb2 as _queries_pb2
from tieline.wire.cursor._pb import shared_pb2 as _shared_pb2
from tieline.wire.cursor._pb import updates_pb2 as _updates_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AgentClientMessage(_message.Message):
    __slots__ = ("run_request", "exec_client_message", "kv_client_message", "conversation_action", "exec_client_control_message", "interaction_response", "client_heartbeat", "prewarm_request")
    RUN_REQUEST_FIELD_NUMBER: _ClassVar[int]
    EXEC_CLIENT_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    KV_CLIENT_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ACTION_FIELD_NUMBER: _ClassVar[int]
    EXEC_CLIENT_CONTROL_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    INTERACTION_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    PREWARM_REQUEST_FIELD_NUMBER: _ClassVar[int]
    run_request: AgentRunRequest
    exec_client_message: _exec_pb2.ExecClientMessage
    kv_client_message: _kv_pb2.KvClientMessage
    conversation_action: _conversation_pb2.ConversationAction
    exec_client_control_message: _exec_pb2.ExecClientControlMessage
    interaction_response: _queries_pb2.InteractionResponse
    client_heartbeat: ClientHeartbeat
    prewarm_request: PrewarmRequest
    def __init__(self, run_request: _Optional[_Union[AgentRunRequest, _Mapping]] = ..., exec_client_message: _Optional[_Union[_exec_pb2.ExecClientMessage, _Mapping]] = ..., kv_client_message: _Optional[_Union[_kv_pb2.KvClientMessage, _Mapping]] = ..., conversation_action: _Optional[_Union[_conversation_pb2.ConversationAction, _Mapping]] = ..., exec_client_control_message: _Optional[_Union[_exec_pb2.ExecClientControlMessage, _Mapping]] = ..., interaction_response: _Optional[_Union[_queries_pb2.InteractionResponse, _Mapping]] = ..., client_heartbeat: _Optional[_Union[ClientHeartbeat, _Mapping]] = ..., prewarm_request: _Optional[_Union[PrewarmRequest, _Mapping]] = ...) -> None: ...

class AgentServerMessage(_message.Message):
    __slots__ = ("interaction_update", "exec_server_message", "conversation_checkpoint_update", "kv_server_message", "exec_server_control_message", "interaction_query", "ttft_breakdown")
    INTERACTION_UPDATE_FIELD_NUMBER: _ClassVar[int]
    EXEC_SERVER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_CHECKPOINT_UPDATE_FIELD_NUMBER: _ClassVar[int]
    KV_SERVER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EXEC_SERVER_CONTROL_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    INTERACTION_QUERY_FIELD_NUMBER: _ClassVar[int]
    TTFT_BREAKDOWN_FIELD_NUMBER: _ClassVar[int]
    interaction_update: _updates_pb2.InteractionUpdate
    exec_server_message: _exec_pb2.ExecServerMessage
    conversation_checkpoint_update: _conversation_pb2.ConversationStateStructure
    kv_server_message: _kv_pb2.KvServerMessage
    exec_server_control_message: _exec_pb2.ExecServerControlMessage
    interaction_query: _queries_pb2.InteractionQuery
    ttft_breakdown: TtftBreakdown
    def __init__(self, interaction_update: _Optional[_Union[_updates_pb2.InteractionUpdate, _Mapping]] = ..., exec_server_message: _Optional[_Union[_exec_pb2.ExecServerMessage, _Mapping]] = ..., conversation_checkpoint_update: _Optional[_Union[_conversation_pb2.ConversationStateStructure, _Mapping]] = ..., kv_server_message: _Optional[_Union[_kv_pb2.KvServerMessage, _Mapping]] = ..., exec_server_control_message: _Optional[_Union[_exec_pb2.ExecServerControlMessage, _Mapping]] = ..., interaction_query: _Optional[_Union[_queries_pb2.InteractionQuery, _Mapping]] = ..., ttft_breakdown: _Optional[_Union[TtftBreakdown, _Mapping]] = ...) -> None: ...

class ClientHeartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TtftBreakdown(_message.Message):
    __slots__ = ("server_first_token_ms", "pre_stream_setup_ms", "wait_for_first_event_ms", "provider_ttft_ms", "slow_pool_wait_ms")
    SERVER_FIRST_TOKEN_MS_FIELD_NUMBER: _ClassVar[int]
    PRE_STREAM_SETUP_MS_FIELD_NUMBER: _ClassVar[int]
    WAIT_FOR_FIRST_EVENT_MS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_TTFT_MS_FIELD_NUMBER: _ClassVar[int]
    SLOW_POOL_WAIT_MS_FIELD_NUMBER: _ClassVar[int]
    server_first_token_ms: float
    pre_stream_setup_ms: float
    wait_for_first_event_ms: float
    provider_ttft_ms: float
    slow_pool_wait_ms: float
    def __init__(self, server_first_token_ms: _Optional[float] = ..., pre_stream_setup_ms: _Optional[float] = ..., wait_for_first_event_ms: _Optional[float] = ..., provider_ttft_ms: _Optional[float] = ..., slow_pool_wait_ms: _Optional[float] = ...) -> None: ...

class AgentRunRequest(_message.Message):
    __slots__ = ("conversation_state", "action", "model_details", "mcp_tools", "conversation_id", "mcp_file_system_options", "skill_options", "custom_system_prompt", "requested_model", "suggest_next_prompt", "subagent_type_name", "exclude_workspace_context", "harness", "selected_subagent_models", "selected_subagent_model_details", "conversation_group_id", "pre_fetched_blobs", "dev_raw_model_slug", "client_supports_inline_images", "subagent_model_overrides", "can_create_cloud_subagents", "suppress_subagent_progress_update_tool", "client_supports_send_to_user", "computer_use_coordinate_mode", "run_id", "agent_session_id", "client_supports_prompt_context_usage_rpc", "client_supports_routed_model_update", "system_prompt_spec", "client_llm_gateway_credential", "client_supports_preview_card", "started_as_new_project", "first_project_onboarding")
    CONVERSATION_STATE_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MODEL_DETAILS_FIELD_NUMBER: _ClassVar[int]
    MCP_TOOLS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    MCP_FILE_SYSTEM_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SKILL_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_SYSTEM_PROMPT_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_MODEL_FIELD_NUMBER: _ClassVar[int]
    SUGGEST_NEXT_PROMPT_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_TYPE_NAME_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_WORKSPACE_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    SELECTED_SUBAGENT_MODELS_FIELD_NUMBER: _ClassVar[int]
    SELECTED_SUBAGENT_MODEL_DETAILS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    PRE_FETCHED_BLOBS_FIELD_NUMBER: _ClassVar[int]
    DEV_RAW_MODEL_SLUG_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SUPPORTS_INLINE_IMAGES_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_MODEL_OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    CAN_CREATE_CLOUD_SUBAGENTS_FIELD_NUMBER: _ClassVar[int]
    SUPPRESS_SUBAGENT_PROGRESS_UPDATE_TOOL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SUPPORTS_SEND_TO_USER_FIELD_NUMBER: _ClassVar[int]
    COMPUTER_USE_COORDINATE_MODE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AGENT_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SUPPORTS_PROMPT_CONTEXT_USAGE_RPC_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SUPPORTS_ROUTED_MODEL_UPDATE_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_PROMPT_SPEC_FIELD_NUMBER: _ClassVar[int]
    CLIENT_LLM_GATEWAY_CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    CLIENT_SUPPORTS_PREVIEW_CARD_FIELD_NUMBER: _ClassVar[int]
    STARTED_AS_NEW_PROJECT_FIELD_NUMBER: _ClassVar[int]
    FIRST_PROJECT_ONBOARDING_FIELD_NUMBER: _ClassVar[int]
    conversation_state: _conversation_pb2.ConversationStateStructure
    action: _conversation_pb2.ConversationAction
    model_details: _shared_pb2.ModelDetails
    mcp_tools: _shared_pb2.McpTools
    conversation_id: str
    mcp_file_system_options: _shared_pb2.McpFileSystemOptions
    skill_options: _shared_pb2.Opaque
    custom_system_prompt: str
    requested_model: _shared_pb2.RequestedModel
    suggest_next_prompt: bool
    subagent_type_name: str
    exclude_workspace_context: bool
    harness: str
    selected_subagent_models: _containers.RepeatedCompositeFieldContainer[_shared_pb2.RequestedModel]
    selected_subagent_model_details: _containers.RepeatedCompositeFieldContainer[_shared_pb2.ModelDetails]
    conversation_group_id: str
    pre_fetched_blobs: _containers.RepeatedCompositeFieldContainer[PreFetchedBlob]
    dev_raw_model_slug: str
    client_supports_inline_images: bool
    subagent_model_overrides: _containers.RepeatedCompositeFieldContainer[_shared_pb2.Opaque]
    can_create_cloud_subagents: bool
    suppress_subagent_progress_update_tool: bool
    client_supports_send_to_user: bool
    computer_use_coordinate_mode: str
    run_id: str
    agent_session_id: str
    client_supports_prompt_context_usage_rpc: bool
    client_supports_routed_model_update: bool
    system_prompt_spec: _shared_pb2.SystemPromptSpec
    client_llm_gateway_credential: _shared_pb2.Opaque
    client_supports_preview_card: bool
    started_as_new_project: bool
    first_project_onboarding: bool
    def __init__(self, conversation_state: _Optional[_Union[_conversation_pb2.ConversationStateStructure, _Mapping]] = ..., action: _Optional[_Union[_conversation_pb2.ConversationAction, _Mapping]] = ..., model_details: _Optional[_Union[_shared_pb2.ModelDetails, _Mapping]] = ..., mcp_tools: _Optional[_Union[_shared_pb2.McpTools, _Mapping]] = ..., conversation_id: _Optional[str] = ..., mcp_file_system_options: _Optional[_Union[_shared_pb2.McpFileSystemOptions, _Mapping]] = ..., skill_options: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., custom_system_prompt: _Optional[str] = ..., requested_model: _Optional[_Union[_shared_pb2.RequestedModel, _Mapping]] = ..., suggest_next_prompt: _Optional[bool] = ..., subagent_type_name: _Optional[str] = ..., exclude_workspace_context: _Optional[bool] = ..., harness: _Optional[str] = ..., selected_subagent_models: _Optional[_Iterable[_Union[_shared_pb2.RequestedModel, _Mapping]]] = ..., selected_subagent_model_details: _Optional[_Iterable[_Union[_shared_pb2.ModelDetails, _Mapping]]] = ..., conversation_group_id: _Optional[str] = ..., pre_fetched_blobs: _Optional[_Iterable[_Union[PreFetchedBlob, _Mapping]]] = ..., dev_raw_model_slug: _Optional[str] = ..., client_supports_inline_images: _Optional[bool] = ..., subagent_model_overrides: _Optional[_Iterable[_Union[_shared_pb2.Opaque, _Mapping]]] = ..., can_create_cloud_subagents: _Optional[bool] = ..., suppress_subagent_progress_update_tool: _Optional[bool] = ..., client_supports_send_to_user: _Optional[bool] = ..., computer_use_coordinate_mode: _Optional[str] = ..., run_id: _Optional[str] = ..., agent_session_id: _Optional[str] = ..., client_supports_prompt_context_usage_rpc: _Optional[bool] = ..., client_supports_routed_model_update: _Optional[bool] = ..., system_prompt_spec: _Optional[_Union[_shared_pb2.SystemPromptSpec, _Mapping]] = ..., client_llm_gateway_credential: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., client_supports_preview_card: _Optional[bool] = ..., started_as_new_project: _Optional[bool] = ..., first_project_onboarding: _Optional[bool] = ...) -> None: ...

class PrewarmRequest(_message.Message):
    __slots__ = ("model_details", "conversation_id", "conversation_state", "mcp_tools", "mcp_file_system_options", "best_of_n_group_id", "try_use_best_of_n_promotion", "custom_system_prompt", "requested_model", "suggest_next_prompt", "subagent_type_name", "exclude_workspace_context", "harness", "pre_fetched_blobs")
    MODEL_DETAILS_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_STATE_FIELD_NUMBER: _ClassVar[int]
    MCP_TOOLS_FIELD_NUMBER: _ClassVar[int]
    MCP_FILE_SYSTEM_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    BEST_OF_N_GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TRY_USE_BEST_OF_N_PROMOTION_FIELD_NUMBER: _ClassVar[int]
    CUSTOM_SYSTEM_PROMPT_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_MODEL_FIELD_NUMBER: _ClassVar[int]
    SUGGEST_NEXT_PROMPT_FIELD_NUMBER: _ClassVar[int]
    SUBAGENT_TYPE_NAME_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_WORKSPACE_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    HARNESS_FIELD_NUMBER: _ClassVar[int]
    PRE_FETCHED_BLOBS_FIELD_NUMBER: _ClassVar[int]
    model_details: _shared_pb2.ModelDetails
    conversation_id: str
    conversation_state: _conversation_pb2.ConversationStateStructure
    mcp_tools: _shared_pb2.McpTools
    mcp_file_system_options: _shared_pb2.McpFileSystemOptions
    best_of_n_group_id: str
    try_use_best_of_n_promotion: bool
    custom_system_prompt: str
    requested_model: _shared_pb2.RequestedModel
    suggest_next_prompt: bool
    subagent_type_name: str
    exclude_workspace_context: bool
    harness: str
    pre_fetched_blobs: _containers.RepeatedCompositeFieldContainer[PreFetchedBlob]
    def __init__(self, model_details: _Optional[_Union[_shared_pb2.ModelDetails, _Mapping]] = ..., conversation_id: _Optional[str] = ..., conversation_state: _Optional[_Union[_conversation_pb2.ConversationStateStructure, _Mapping]] = ..., mcp_tools: _Optional[_Union[_shared_pb2.McpTools, _Mapping]] = ..., mcp_file_system_options: _Optional[_Union[_shared_pb2.McpFileSystemOptions, _Mapping]] = ..., best_of_n_group_id: _Optional[str] = ..., try_use_best_of_n_promotion: _Optional[bool] = ..., custom_system_prompt: _Optional[str] = ..., requested_model: _Optional[_Union[_shared_pb2.RequestedModel, _Mapping]] = ..., suggest_next_prompt: _Optional[bool] = ..., subagent_type_name: _Optional[str] = ..., exclude_workspace_context: _Optional[bool] = ..., harness: _Optional[str] = ..., pre_fetched_blobs: _Optional[_Iterable[_Union[PreFetchedBlob, _Mapping]]] = ...) -> None: ...

class PreFetchedBlob(_message.Message):
    __slots__ = ("id", "value")
    ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    value: bytes
    def __init__(self, id: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...

class GetUsableModelsRequest(_message.Message):
    __slots__ = ("custom_model_ids",)
    CUSTOM_MODEL_IDS_FIELD_NUMBER: _ClassVar[int]
    custom_model_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, custom_model_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetUsableModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[_shared_pb2.ModelDetails]
    def __init__(self, models: _Optional[_Iterable[_Union[_shared_pb2.ModelDetails, _Mapping]]] = ...) -> None: ...

class GetDefaultModelForCliRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetDefaultModelForCliResponse(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: _shared_pb2.ModelDetails
    def __init__(self, model: _Optional[_Union[_shared_pb2.ModelDetails, _Mapping]] = ...) -> None: ...

class NameAgentRequest(_message.Message):
    __slots__ = ("user_message",)
    USER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    user_message: str
    def __init__(self, user_message: _Optional[str] = ...) -> None: ...

class NameAgentResponse(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class UploadConversationBlobsRequest(_message.Message):
    __slots__ = ("conversation_id", "blobs", "chunk_index", "total_chunks")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    CHUNK_INDEX_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CHUNKS_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    blobs: _containers.RepeatedCompositeFieldContainer[BlobEntry]
    chunk_index: int
    total_chunks: int
    def __init__(self, conversation_id: _Optional[str] = ..., blobs: _Optional[_Iterable[_Union[BlobEntry, _Mapping]]] = ..., chunk_index: _Optional[int] = ..., total_chunks: _Optional[int] = ...) -> None: ...

class BlobEntry(_message.Message):
    __slots__ = ("id", "value")
    ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    value: bytes
    def __init__(self, id: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...
