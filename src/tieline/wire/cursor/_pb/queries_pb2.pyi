from tieline.wire.cursor._pb import shared_pb2 as _shared_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Verdict(_message.Message):
    __slots__ = ("success", "error")
    class Refusal(_message.Message):
        __slots__ = ("reason",)
        REASON_FIELD_NUMBER: _ClassVar[int]
        reason: str
        def __init__(self, reason: _Optional[str] = ...) -> None: ...
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: _shared_pb2.Opaque
    error: Verdict.Refusal
    def __init__(self, success: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., error: _Optional[_Union[Verdict.Refusal, _Mapping]] = ...) -> None: ...

class InteractionQuery(_message.Message):
    __slots__ = ("id", "web_search_request_query", "ask_question_interaction_query", "switch_mode_request_query", "create_plan_request_query", "setup_vm_environment_args", "web_fetch_request_query", "pr_management_request_query", "mcp_auth_request_query", "generate_image_request_query", "replace_env_args", "connect_scm_request_query")
    ID_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_REQUEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    ASK_QUESTION_INTERACTION_QUERY_FIELD_NUMBER: _ClassVar[int]
    SWITCH_MODE_REQUEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    CREATE_PLAN_REQUEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    SETUP_VM_ENVIRONMENT_ARGS_FIELD_NUMBER: _ClassVar[int]
    WEB_FETCH_REQUEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    PR_MANAGEMENT_REQUEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    MCP_AUTH_REQUEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    GENERATE_IMAGE_REQUEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ENV_ARGS_FIELD_NUMBER: _ClassVar[int]
    CONNECT_SCM_REQUEST_QUERY_FIELD_NUMBER: _ClassVar[int]
    id: int
    web_search_request_query: WebSearchRequestQuery
    ask_question_interaction_query: AskQuestionInteractionQuery
    switch_mode_request_query: SwitchModeRequestQuery
    create_plan_request_query: CreatePlanRequestQuery
    setup_vm_environment_args: _shared_pb2.Opaque
    web_fetch_request_query: WebFetchRequestQuery
    pr_management_request_query: _shared_pb2.Opaque
    mcp_auth_request_query: McpAuthRequestQuery
    generate_image_request_query: _shared_pb2.Opaque
    replace_env_args: _shared_pb2.Opaque
    connect_scm_request_query: _shared_pb2.Opaque
    def __init__(self, id: _Optional[int] = ..., web_search_request_query: _Optional[_Union[WebSearchRequestQuery, _Mapping]] = ..., ask_question_interaction_query: _Optional[_Union[AskQuestionInteractionQuery, _Mapping]] = ..., switch_mode_request_query: _Optional[_Union[SwitchModeRequestQuery, _Mapping]] = ..., create_plan_request_query: _Optional[_Union[CreatePlanRequestQuery, _Mapping]] = ..., setup_vm_environment_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., web_fetch_request_query: _Optional[_Union[WebFetchRequestQuery, _Mapping]] = ..., pr_management_request_query: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., mcp_auth_request_query: _Optional[_Union[McpAuthRequestQuery, _Mapping]] = ..., generate_image_request_query: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., replace_env_args: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., connect_scm_request_query: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class InteractionResponse(_message.Message):
    __slots__ = ("id", "web_search_request_response", "ask_question_interaction_response", "switch_mode_request_response", "create_plan_request_response", "setup_vm_environment_result", "web_fetch_request_response", "pr_management_result", "mcp_auth_request_response", "generate_image_request_response", "replace_env_result", "connect_scm_request_response")
    ID_FIELD_NUMBER: _ClassVar[int]
    WEB_SEARCH_REQUEST_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    ASK_QUESTION_INTERACTION_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    SWITCH_MODE_REQUEST_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    CREATE_PLAN_REQUEST_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    SETUP_VM_ENVIRONMENT_RESULT_FIELD_NUMBER: _ClassVar[int]
    WEB_FETCH_REQUEST_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    PR_MANAGEMENT_RESULT_FIELD_NUMBER: _ClassVar[int]
    MCP_AUTH_REQUEST_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    GENERATE_IMAGE_REQUEST_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    REPLACE_ENV_RESULT_FIELD_NUMBER: _ClassVar[int]
    CONNECT_SCM_REQUEST_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    id: int
    web_search_request_response: WebSearchRequestResponse
    ask_question_interaction_response: AskQuestionInteractionResponse
    switch_mode_request_response: SwitchModeRequestResponse
    create_plan_request_response: CreatePlanRequestResponse
    setup_vm_environment_result: Verdict
    web_fetch_request_response: WebFetchRequestResponse
    pr_management_result: Verdict
    mcp_auth_request_response: McpAuthRequestResponse
    generate_image_request_response: Verdict
    replace_env_result: Verdict
    connect_scm_request_response: Verdict
    def __init__(self, id: _Optional[int] = ..., web_search_request_response: _Optional[_Union[WebSearchRequestResponse, _Mapping]] = ..., ask_question_interaction_response: _Optional[_Union[AskQuestionInteractionResponse, _Mapping]] = ..., switch_mode_request_response: _Optional[_Union[SwitchModeRequestResponse, _Mapping]] = ..., create_plan_request_response: _Optional[_Union[CreatePlanRequestResponse, _Mapping]] = ..., setup_vm_environment_result: _Optional[_Union[Verdict, _Mapping]] = ..., web_fetch_request_response: _Optional[_Union[WebFetchRequestResponse, _Mapping]] = ..., pr_management_result: _Optional[_Union[Verdict, _Mapping]] = ..., mcp_auth_request_response: _Optional[_Union[McpAuthRequestResponse, _Mapping]] = ..., generate_image_request_response: _Optional[_Union[Verdict, _Mapping]] = ..., replace_env_result: _Optional[_Union[Verdict, _Mapping]] = ..., connect_scm_request_response: _Optional[_Union[Verdict, _Mapping]] = ...) -> None: ...

class WebSearchRequestQuery(_message.Message):
    __slots__ = ("args",)
    ARGS_FIELD_NUMBER: _ClassVar[int]
    args: WebSearchArgs
    def __init__(self, args: _Optional[_Union[WebSearchArgs, _Mapping]] = ...) -> None: ...

class WebSearchArgs(_message.Message):
    __slots__ = ("search_term", "tool_call_id")
    SEARCH_TERM_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    search_term: str
    tool_call_id: str
    def __init__(self, search_term: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class WebSearchRequestResponse(_message.Message):
    __slots__ = ("approved", "rejected")
    class Approved(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Rejected(_message.Message):
        __slots__ = ("reason",)
        REASON_FIELD_NUMBER: _ClassVar[int]
        reason: str
        def __init__(self, reason: _Optional[str] = ...) -> None: ...
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    approved: WebSearchRequestResponse.Approved
    rejected: WebSearchRequestResponse.Rejected
    def __init__(self, approved: _Optional[_Union[WebSearchRequestResponse.Approved, _Mapping]] = ..., rejected: _Optional[_Union[WebSearchRequestResponse.Rejected, _Mapping]] = ...) -> None: ...

class WebSearchResult(_message.Message):
    __slots__ = ("success", "error", "rejected")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    success: WebSearchSuccess
    error: _shared_pb2.Opaque
    rejected: _shared_pb2.Opaque
    def __init__(self, success: _Optional[_Union[WebSearchSuccess, _Mapping]] = ..., error: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ..., rejected: _Optional[_Union[_shared_pb2.Opaque, _Mapping]] = ...) -> None: ...

class WebSearchSuccess(_message.Message):
    __slots__ = ("references",)
    REFERENCES_FIELD_NUMBER: _ClassVar[int]
    references: _containers.RepeatedCompositeFieldContainer[WebSearchReference]
    def __init__(self, references: _Optional[_Iterable[_Union[WebSearchReference, _Mapping]]] = ...) -> None: ...

class WebSearchReference(_message.Message):
    __slots__ = ("title", "url", "chunk")
    TITLE_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    title: str
    url: str
    chunk: str
    def __init__(self, title: _Optional[str] = ..., url: _Optional[str] = ..., chunk: _Optional[str] = ...) -> None: ...

class WebFetchRequestQuery(_message.Message):
    __slots__ = ("args", "skip_approval", "smart_mode_approval")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    SKIP_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    SMART_MODE_APPROVAL_FIELD_NUMBER: _ClassVar[int]
    args: WebFetchArgs
    skip_approval: bool
    smart_mode_approval: _shared_pb2.SmartModeApproval
    def __init__(self, args: _Optional[_Union[WebFetchArgs, _Mapping]] = ..., skip_approval: _Optional[bool] = ..., smart_mode_approval: _Optional[_Union[_shared_pb2.SmartModeApproval, _Mapping]] = ...) -> None: ...

class WebFetchArgs(_message.Message):
    __slots__ = ("url", "tool_call_id")
    URL_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    url: str
    tool_call_id: str
    def __init__(self, url: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class WebFetchRequestResponse(_message.Message):
    __slots__ = ("approved", "rejected")
    class Approved(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Rejected(_message.Message):
        __slots__ = ("reason",)
        REASON_FIELD_NUMBER: _ClassVar[int]
        reason: str
        def __init__(self, reason: _Optional[str] = ...) -> None: ...
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    approved: WebFetchRequestResponse.Approved
    rejected: WebFetchRequestResponse.Rejected
    def __init__(self, approved: _Optional[_Union[WebFetchRequestResponse.Approved, _Mapping]] = ..., rejected: _Optional[_Union[WebFetchRequestResponse.Rejected, _Mapping]] = ...) -> None: ...

class WebFetchSuccess(_message.Message):
    __slots__ = ("url", "markdown", "output_location")
    URL_FIELD_NUMBER: _ClassVar[int]
    MARKDOWN_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_LOCATION_FIELD_NUMBER: _ClassVar[int]
    url: str
    markdown: str
    output_location: _shared_pb2.OutputLocation
    def __init__(self, url: _Optional[str] = ..., markdown: _Optional[str] = ..., output_location: _Optional[_Union[_shared_pb2.OutputLocation, _Mapping]] = ...) -> None: ...

class AskQuestionInteractionQuery(_message.Message):
    __slots__ = ("args", "tool_call_id")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    args: AskQuestionArgs
    tool_call_id: str
    def __init__(self, args: _Optional[_Union[AskQuestionArgs, _Mapping]] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class AskQuestionInteractionResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: AskQuestionResult
    def __init__(self, result: _Optional[_Union[AskQuestionResult, _Mapping]] = ...) -> None: ...

class AskQuestionArgs(_message.Message):
    __slots__ = ("title", "questions", "run_async", "async_original_tool_call_id")
    class Question(_message.Message):
        __slots__ = ("id", "prompt", "options", "allow_multiple")
        ID_FIELD_NUMBER: _ClassVar[int]
        PROMPT_FIELD_NUMBER: _ClassVar[int]
        OPTIONS_FIELD_NUMBER: _ClassVar[int]
        ALLOW_MULTIPLE_FIELD_NUMBER: _ClassVar[int]
        id: str
        prompt: str
        options: _containers.RepeatedCompositeFieldContainer[AskQuestionArgs.Option]
        allow_multiple: bool
        def __init__(self, id: _Optional[str] = ..., prompt: _Optional[str] = ..., options: _Optional[_Iterable[_Union[AskQuestionArgs.Option, _Mapping]]] = ..., allow_multiple: _Optional[bool] = ...) -> None: ...
    class Option(_message.Message):
        __slots__ = ("id", "label")
        ID_FIELD_NUMBER: _ClassVar[int]
        LABEL_FIELD_NUMBER: _ClassVar[int]
        id: str
        label: str
        def __init__(self, id: _Optional[str] = ..., label: _Optional[str] = ...) -> None: ...
    TITLE_FIELD_NUMBER: _ClassVar[int]
    QUESTIONS_FIELD_NUMBER: _ClassVar[int]
    RUN_ASYNC_FIELD_NUMBER: _ClassVar[int]
    ASYNC_ORIGINAL_TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    title: str
    questions: _containers.RepeatedCompositeFieldContainer[AskQuestionArgs.Question]
    run_async: bool
    async_original_tool_call_id: str
    def __init__(self, title: _Optional[str] = ..., questions: _Optional[_Iterable[_Union[AskQuestionArgs.Question, _Mapping]]] = ..., run_async: _Optional[bool] = ..., async_original_tool_call_id: _Optional[str] = ...) -> None: ...

class AskQuestionResult(_message.Message):
    __slots__ = ("success", "error", "rejected")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    ASYNC_FIELD_NUMBER: _ClassVar[int]
    success: AskQuestionSuccess
    error: AskQuestionError
    rejected: AskQuestionRejected
    def __init__(self, success: _Optional[_Union[AskQuestionSuccess, _Mapping]] = ..., error: _Optional[_Union[AskQuestionError, _Mapping]] = ..., rejected: _Optional[_Union[AskQuestionRejected, _Mapping]] = ..., **kwargs) -> None: ...

class AskQuestionSuccess(_message.Message):
    __slots__ = ("answers",)
    class Answer(_message.Message):
        __slots__ = ("question_id", "selected_option_ids", "freeform_text")
        QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
        SELECTED_OPTION_IDS_FIELD_NUMBER: _ClassVar[int]
        FREEFORM_TEXT_FIELD_NUMBER: _ClassVar[int]
        question_id: str
        selected_option_ids: _containers.RepeatedScalarFieldContainer[str]
        freeform_text: str
        def __init__(self, question_id: _Optional[str] = ..., selected_option_ids: _Optional[_Iterable[str]] = ..., freeform_text: _Optional[str] = ...) -> None: ...
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[AskQuestionSuccess.Answer]
    def __init__(self, answers: _Optional[_Iterable[_Union[AskQuestionSuccess.Answer, _Mapping]]] = ...) -> None: ...

class AskQuestionError(_message.Message):
    __slots__ = ("error_message",)
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    error_message: str
    def __init__(self, error_message: _Optional[str] = ...) -> None: ...

class AskQuestionRejected(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class SwitchModeRequestQuery(_message.Message):
    __slots__ = ("args",)
    ARGS_FIELD_NUMBER: _ClassVar[int]
    args: SwitchModeArgs
    def __init__(self, args: _Optional[_Union[SwitchModeArgs, _Mapping]] = ...) -> None: ...

class SwitchModeArgs(_message.Message):
    __slots__ = ("target_mode_id", "explanation", "tool_call_id")
    TARGET_MODE_ID_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    target_mode_id: str
    explanation: str
    tool_call_id: str
    def __init__(self, target_mode_id: _Optional[str] = ..., explanation: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class SwitchModeRequestResponse(_message.Message):
    __slots__ = ("approved", "rejected")
    class Approved(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Rejected(_message.Message):
        __slots__ = ("reason",)
        REASON_FIELD_NUMBER: _ClassVar[int]
        reason: str
        def __init__(self, reason: _Optional[str] = ...) -> None: ...
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    approved: SwitchModeRequestResponse.Approved
    rejected: SwitchModeRequestResponse.Rejected
    def __init__(self, approved: _Optional[_Union[SwitchModeRequestResponse.Approved, _Mapping]] = ..., rejected: _Optional[_Union[SwitchModeRequestResponse.Rejected, _Mapping]] = ...) -> None: ...

class CreatePlanRequestQuery(_message.Message):
    __slots__ = ("args", "tool_call_id")
    ARGS_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    args: CreatePlanArgs
    tool_call_id: str
    def __init__(self, args: _Optional[_Union[CreatePlanArgs, _Mapping]] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class CreatePlanArgs(_message.Message):
    __slots__ = ("plan", "todos", "overview", "name", "is_project", "phases")
    PLAN_FIELD_NUMBER: _ClassVar[int]
    TODOS_FIELD_NUMBER: _ClassVar[int]
    OVERVIEW_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IS_PROJECT_FIELD_NUMBER: _ClassVar[int]
    PHASES_FIELD_NUMBER: _ClassVar[int]
    plan: str
    todos: _containers.RepeatedCompositeFieldContainer[_shared_pb2.TodoItem]
    overview: str
    name: str
    is_project: bool
    phases: _containers.RepeatedCompositeFieldContainer[Phase]
    def __init__(self, plan: _Optional[str] = ..., todos: _Optional[_Iterable[_Union[_shared_pb2.TodoItem, _Mapping]]] = ..., overview: _Optional[str] = ..., name: _Optional[str] = ..., is_project: _Optional[bool] = ..., phases: _Optional[_Iterable[_Union[Phase, _Mapping]]] = ...) -> None: ...

class Phase(_message.Message):
    __slots__ = ("name", "todos")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TODOS_FIELD_NUMBER: _ClassVar[int]
    name: str
    todos: _containers.RepeatedCompositeFieldContainer[_shared_pb2.TodoItem]
    def __init__(self, name: _Optional[str] = ..., todos: _Optional[_Iterable[_Union[_shared_pb2.TodoItem, _Mapping]]] = ...) -> None: ...

class CreatePlanRequestResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: CreatePlanResult
    def __init__(self, result: _Optional[_Union[CreatePlanResult, _Mapping]] = ...) -> None: ...

class CreatePlanResult(_message.Message):
    __slots__ = ("success", "error", "plan_uri")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    PLAN_URI_FIELD_NUMBER: _ClassVar[int]
    success: CreatePlanSuccess
    error: CreatePlanError
    plan_uri: str
    def __init__(self, success: _Optional[_Union[CreatePlanSuccess, _Mapping]] = ..., error: _Optional[_Union[CreatePlanError, _Mapping]] = ..., plan_uri: _Optional[str] = ...) -> None: ...

class CreatePlanError(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: str
    def __init__(self, error: _Optional[str] = ...) -> None: ...

class McpAuthRequestQuery(_message.Message):
    __slots__ = ("args",)
    ARGS_FIELD_NUMBER: _ClassVar[int]
    args: McpAuthArgs
    def __init__(self, args: _Optional[_Union[McpAuthArgs, _Mapping]] = ...) -> None: ...

class McpAuthArgs(_message.Message):
    __slots__ = ("server_identifier", "tool_call_id")
    SERVER_IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    server_identifier: str
    tool_call_id: str
    def __init__(self, server_identifier: _Optional[str] = ..., tool_call_id: _Optional[str] = ...) -> None: ...

class McpAuthRequestResponse(_message.Message):
    __slots__ = ("approved", "rejected")
    class Approved(_message.Message):
        __slots__ = ()
        def __init__(self) -> None: ...
    class Rejected(_message.Message):
        __slots__ = ("reason",)
        REASON_FIELD_NUMBER: _ClassVar[int]
        reason: str
        def __init__(self, reason: _Optional[str] = ...) -> None: ...
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    approved: McpAuthRequestResponse.Approved
    rejected: McpAuthRequestResponse.Rejected
    def __init__(self, approved: _Optional[_Union[McpAuthRequestResponse.Approved, _Mapping]] = ..., rejected: _Optional[_Union[McpAuthRequestResponse.Rejected, _Mapping]] = ...) -> None: ...

class CreatePlanSuccess(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AskQuestionAsync(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
