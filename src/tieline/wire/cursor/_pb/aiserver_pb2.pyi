from tieline.wire.cursor._pb import shared_pb2 as _shared_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Http2Config(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HTTP2_CONFIG_UNSPECIFIED: _ClassVar[Http2Config]
    HTTP2_CONFIG_FORCE_ALL_DISABLED: _ClassVar[Http2Config]
    HTTP2_CONFIG_FORCE_ALL_ENABLED: _ClassVar[Http2Config]
    HTTP2_CONFIG_FORCE_BIDI_DISABLED: _ClassVar[Http2Config]
    HTTP2_CONFIG_FORCE_BIDI_ENABLED: _ClassVar[Http2Config]
HTTP2_CONFIG_UNSPECIFIED: Http2Config
HTTP2_CONFIG_FORCE_ALL_DISABLED: Http2Config
HTTP2_CONFIG_FORCE_ALL_ENABLED: Http2Config
HTTP2_CONFIG_FORCE_BIDI_DISABLED: Http2Config
HTTP2_CONFIG_FORCE_BIDI_ENABLED: Http2Config

class BidiRequestId(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class BidiAppendRequest(_message.Message):
    __slots__ = ("data", "request_id", "append_seqno", "data_binary")
    DATA_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    APPEND_SEQNO_FIELD_NUMBER: _ClassVar[int]
    DATA_BINARY_FIELD_NUMBER: _ClassVar[int]
    data: str
    request_id: BidiRequestId
    append_seqno: int
    data_binary: bytes
    def __init__(self, data: _Optional[str] = ..., request_id: _Optional[_Union[BidiRequestId, _Mapping]] = ..., append_seqno: _Optional[int] = ..., data_binary: _Optional[bytes] = ...) -> None: ...

class BidiAppendResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AgentUrlConfig(_message.Message):
    __slots__ = ("agent_url", "agentn_url")
    AGENT_URL_FIELD_NUMBER: _ClassVar[int]
    AGENTN_URL_FIELD_NUMBER: _ClassVar[int]
    agent_url: str
    agentn_url: str
    def __init__(self, agent_url: _Optional[str] = ..., agentn_url: _Optional[str] = ...) -> None: ...

class GetServerConfigResponse(_message.Message):
    __slots__ = ("config_version", "http2_config", "client_version_status", "agent_url_config")
    CONFIG_VERSION_FIELD_NUMBER: _ClassVar[int]
    HTTP2_CONFIG_FIELD_NUMBER: _ClassVar[int]
    CLIENT_VERSION_STATUS_FIELD_NUMBER: _ClassVar[int]
    AGENT_URL_CONFIG_FIELD_NUMBER: _ClassVar[int]
    config_version: str
    http2_config: Http2Config
    client_version_status: int
    agent_url_config: AgentUrlConfig
    def __init__(self, config_version: _Optional[str] = ..., http2_config: _Optional[_Union[Http2Config, str]] = ..., client_version_status: _Optional[int] = ..., agent_url_config: _Optional[_Union[AgentUrlConfig, _Mapping]] = ...) -> None: ...

class GetUserPrivacyModeResponse(_message.Message):
    __slots__ = ("privacy_mode",)
    PRIVACY_MODE_FIELD_NUMBER: _ClassVar[int]
    privacy_mode: int
    def __init__(self, privacy_mode: _Optional[int] = ...) -> None: ...

class ErrorDetails(_message.Message):
    __slots__ = ("error", "details", "is_expected")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    IS_EXPECTED_FIELD_NUMBER: _ClassVar[int]
    error: int
    details: CustomErrorDetails
    is_expected: bool
    def __init__(self, error: _Optional[int] = ..., details: _Optional[_Union[CustomErrorDetails, _Mapping]] = ..., is_expected: _Optional[bool] = ...) -> None: ...

class CustomErrorDetails(_message.Message):
    __slots__ = ("title", "detail", "is_retryable", "show_request_id", "should_show_immediate_error", "additional_info", "analytics_metadata")
    class AdditionalInfoEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    IS_RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    SHOW_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SHOULD_SHOW_IMMEDIATE_ERROR_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_INFO_FIELD_NUMBER: _ClassVar[int]
    ANALYTICS_METADATA_FIELD_NUMBER: _ClassVar[int]
    title: str
    detail: str
    is_retryable: bool
    show_request_id: bool
    should_show_immediate_error: bool
    additional_info: _containers.ScalarMap[str, str]
    analytics_metadata: _shared_pb2.Opaque
    def __init__(self, title: _Optional[str] = ..., detail: _Optional[str] = ..., is_retryable: _Optional[bool] = ..., show_request_id: _Optional[bool] = ..., should_show_immediate_error: _Optional[bool] = ..., additional_info: _Optional[_Mapping[str, str]] = ..., analytics_metadata: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class RpcStatus(_message.Message):
    __slots__ = ("code", "message", "details")
    class Detail(_message.Message):
        __slots__ = ("type_url", "value")
        TYPE_URL_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        type_url: str
        value: bytes
        def __init__(self, type_url: _Optional[str] = ..., value: _Optional[bytes] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    code: int
    message: str
    details: _containers.RepeatedCompositeFieldContainer[RpcStatus.Detail]
    def __init__(self, code: _Optional[int] = ..., message: _Optional[str] = ..., details: _Optional[_Iterable[_Union[RpcStatus.Detail, _Mapping]]] = ...) -> None: ...

class AvailableModelsRequest(_message.Message):
    __slots__ = ("use_model_parameters", "do_not_use_markdown")
    USE_MODEL_PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    DO_NOT_USE_MARKDOWN_FIELD_NUMBER: _ClassVar[int]
    use_model_parameters: bool
    do_not_use_markdown: bool
    def __init__(self, use_model_parameters: _Optional[bool] = ..., do_not_use_markdown: _Optional[bool] = ...) -> None: ...

class AvailableModelsResponse(_message.Message):
    __slots__ = ("models",)
    MODELS_FIELD_NUMBER: _ClassVar[int]
    models: _containers.RepeatedCompositeFieldContainer[AvailableModel]
    def __init__(self, models: _Optional[_Iterable[_Union[AvailableModel, _Mapping]]] = ...) -> None: ...

class AvailableModel(_message.Message):
    __slots__ = ("name", "supports_images", "supports_max_mode", "context_token_limit", "context_token_limit_for_max_mode", "client_display_name", "server_model_name", "supports_non_max_mode", "variants")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_IMAGES_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_MAX_MODE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKEN_LIMIT_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_TOKEN_LIMIT_FOR_MAX_MODE_FIELD_NUMBER: _ClassVar[int]
    CLIENT_DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    SERVER_MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_NON_MAX_MODE_FIELD_NUMBER: _ClassVar[int]
    VARIANTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    supports_images: bool
    supports_max_mode: bool
    context_token_limit: int
    context_token_limit_for_max_mode: int
    client_display_name: str
    server_model_name: str
    supports_non_max_mode: bool
    variants: _containers.RepeatedCompositeFieldContainer[ModelVariant]
    def __init__(self, name: _Optional[str] = ..., supports_images: _Optional[bool] = ..., supports_max_mode: _Optional[bool] = ..., context_token_limit: _Optional[int] = ..., context_token_limit_for_max_mode: _Optional[int] = ..., client_display_name: _Optional[str] = ..., server_model_name: _Optional[str] = ..., supports_non_max_mode: _Optional[bool] = ..., variants: _Optional[_Iterable[_Union[ModelVariant, _Mapping]]] = ...) -> None: ...

class ModelVariant(_message.Message):
    __slots__ = ("parameters", "display_name", "is_max_mode", "is_default_max_config", "is_default_non_max_config", "display_name_outside_picker", "variant_string_representation")
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_FIELD_NUMBER: _ClassVar[int]
    IS_MAX_MODE_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_MAX_CONFIG_FIELD_NUMBER: _ClassVar[int]
    IS_DEFAULT_NON_MAX_CONFIG_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_NAME_OUTSIDE_PICKER_FIELD_NUMBER: _ClassVar[int]
    VARIANT_STRING_REPRESENTATION_FIELD_NUMBER: _ClassVar[int]
    parameters: _containers.RepeatedCompositeFieldContainer[ModelParameter]
    display_name: str
    is_max_mode: bool
    is_default_max_config: bool
    is_default_non_max_config: bool
    display_name_outside_picker: str
    variant_string_representation: str
    def __init__(self, parameters: _Optional[_Iterable[_Union[ModelParameter, _Mapping]]] = ..., display_name: _Optional[str] = ..., is_max_mode: _Optional[bool] = ..., is_default_max_config: _Optional[bool] = ..., is_default_non_max_config: _Optional[bool] = ..., display_name_outside_picker: _Optional[str] = ..., variant_string_representation: _Optional[str] = ...) -> None: ...

class ModelParameter(_message.Message):
    __slots__ = ("id", "value")
    ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    id: str
    value: str
    def __init__(self, id: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
