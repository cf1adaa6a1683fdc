/* The canned answers of the fake upstream: 50 text deltas in three dialects, as a stream and as JSON, and as a Cursor run
 * over either transport. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DELTAS = 50 };

/* A canned answer: its bytes, and the end of each delta. */
struct answer {
    char *data;
    size_t len, cap;
    size_t cut[DELTAS];
    int cuts;
};

static struct answer anthropic_stream, anthropic_json, openai_stream, openai_json, responses_stream, not_found, bad_request;
static struct answer login, append_done;
static struct answer run_head, run_text; /* of a run over HTTP/1.1 */
static struct answer run_head_frame, run_text_frames; /* of a run over HTTP/2, without stream ids */

static void die(const char *what) {
    perror(what);
    exit(1);
}

static void put(struct answer *a, const char *data, size_t len) {
    if (a->len + len > a->cap) {
        a->cap = (a->len + len) * 2;
        a->data = realloc(a->data, a->cap);
        if (!a->data) die("realloc");
    }
    memcpy(a->data + a->len, data, len);
    a->len += len;
}

__attribute__((format(printf, 2, 3))) static void putf(struct answer *a, const char *format, ...) {
    char text[8192];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    put(a, text, (size_t)len);
}

/* Adds one chunk of a chunked body. */
__attribute__((format(printf, 2, 3))) static void chunk(struct answer *a, const char *format, ...) {
    char text[8192];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    putf(a, "%x\r\n", (unsigned)len);
    put(a, text, (size_t)len);
    put(a, "\r\n", 2);
}

static const char *delta_text(int n, char *out, size_t cap) {
    static const char *phrases[] = {
        "the function ", "reads ", "every line of ", "the file,\\n", "so that ",
        "a caller ", "may \\\"see\\\" ", "what changed ", "before ", "it writes. ",
    };
    snprintf(out, cap, "tok%02d %s", n, phrases[n % 10]);
    return out;
}

static void all_text(char *out, size_t cap) {
    char one[64];
    size_t len = 0;
    for (int i = 0; i < DELTAS; i++) {
        len += (size_t)snprintf(out + len, cap - len, "%s", delta_text(i, one, sizeof one));
    }
}

#define COMMON_HEADERS                                                                    \
    "date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"                                             \
    "request-id: req_011CSHoEeqs5C35K2UUqR7Fy\r\n"                                        \
    "anthropic-ratelimit-requests-limit: 4000\r\n"                                        \
    "anthropic-ratelimit-requests-remaining: 3999\r\n"                                    \
    "anthropic-ratelimit-requests-reset: 2026-01-01T00:00:00Z\r\n"                        \
    "cache-control: no-cache\r\n"
#define STREAM_HEAD                                                                       \
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"               \
    "transfer-encoding: chunked\r\n" COMMON_HEADERS "\r\n"

static void json_answer(struct answer *a, const char *status, const char *body) {
    putf(a, "HTTP/1.1 %s\r\ncontent-type: application/json\r\ncontent-length: %zu\r\n" COMMON_HEADERS "\r\n", status,
         strlen(body));
    put(a, body, strlen(body));
}

static void build_anthropic(void) {
    char text[64], whole[4096], body[8192];
    struct answer *a = &anthropic_stream;
    put(a, STREAM_HEAD, strlen(STREAM_HEAD));
    chunk(a, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_01BenchBench\","
             "\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-bench\",\"content\":[],"
             "\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":412,\"cache_creation_input_tokens\":0,"
             "\"cache_read_input_tokens\":0,\"output_tokens\":1}}}\n\n");
    chunk(a, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,"
             "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n");
    chunk(a, "event: ping\ndata: {\"type\":\"ping\"}\n\n");
    for (int i = 0; i < DELTAS; i++) {
        chunk(a, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,"
                 "\"delta\":{\"type\":\"text_delta\",\"text\":\"%s\"}}\n\n", delta_text(i, text, sizeof text));
        a->cut[a->cuts++] = a->len;
    }
    chunk(a, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n");
    chunk(a, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\","
             "\"stop_sequence\":null},\"usage\":{\"output_tokens\":150}}\n\n");
    chunk(a, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n");
    put(a, "0\r\n\r\n", 5);
    a->cut[DELTAS - 1] = a->len;

    all_text(whole, sizeof whole);
    snprintf(body, sizeof body,
             "{\"id\":\"msg_01BenchBench\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"claude-bench\","
             "\"content\":[{\"type\":\"text\",\"text\":\"%s\"}],\"stop_reason\":\"end_turn\",\"stop_sequence\":null,"
             "\"usage\":{\"input_tokens\":412,\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":0,"
             "\"output_tokens\":150}}", whole);
    json_answer(&anthropic_json, "200 OK", body);
}

#define CHUNK_HEAD                                                                        \
    "data: {\"id\":\"chatcmpl-BenchBench\",\"object\":\"chat.completion.chunk\"," \
    "\"created\":1767225600,\"model\":\"gpt-bench\",\"choices\":[{\"index\":0,\"delta\":"

static void build_openai(void) {
    char text[64], whole[4096], body[8192];
    struct answer *a = &openai_stream;
    put(a, STREAM_HEAD, strlen(STREAM_HEAD));
    chunk(a, CHUNK_HEAD "{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n");
    for (int i = 0; i < DELTAS; i++) {
        chunk(a, CHUNK_HEAD "{\"content\":\"%s\"},\"finish_reason\":null}]}\n\n", delta_text(i, text, sizeof text));
        a->cut[a->cuts++] = a->len;
    }
    chunk(a, CHUNK_HEAD "{},\"finish_reason\":\"stop\"}]}\n\n");
    chunk(a, "data: [DONE]\n\n");
    put(a, "0\r\n\r\n", 5);
    a->cut[DELTAS - 1] = a->len;

    all_text(whole, sizeof whole);
    snprintf(body, sizeof body,
             "{\"id\":\"chatcmpl-BenchBench\",\"object\":\"chat.completion\",\"created\":1767225600,"
             "\"model\":\"gpt-bench\","
             "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s\"},"
             "\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":412,\"completion_tokens\":150,"
             "\"total_tokens\":562}}", whole);
    json_answer(&openai_json, "200 OK", body);
}

#define RESPONSE(status, output, usage)                                                   \
    "{\"id\":\"resp_BenchBench\",\"object\":\"response\",\"created_at\":1767225600,\"model\":\"gpt-bench\"," \
    "\"status\":\"" status "\",\"error\":null,\"incomplete_details\":null,\"instructions\":null,\"metadata\":{}," \
    "\"parallel_tool_calls\":true,\"temperature\":1.0,\"tool_choice\":\"auto\",\"tools\":[],\"top_p\":1.0," \
    "\"output\":[" output "],\"usage\":" usage "}"
#define MESSAGE(status, content)                                                          \
    "{\"id\":\"msg_BenchBench\",\"type\":\"message\",\"role\":\"assistant\",\"status\":\"" status "\",\"content\":[" content "]}"
#define TEXT_PART "{\"type\":\"output_text\",\"text\":\"%s\",\"annotations\":[],\"logprobs\":[]}"
#define IN_ITEM "\"item_id\":\"msg_BenchBench\",\"output_index\":0,\"content_index\":0"

/* Adds one event of a Responses stream. */
#define EVENT(a, kind, number, format, ...)                                               \
    chunk(a, "event: response." kind "\ndata: {\"type\":\"response." kind "\",\"sequence_number\":%d," format "}\n\n", \
          number, ##__VA_ARGS__)

static void build_responses(void) {
    char text[64], whole[4096];
    int n = 0;
    struct answer *a = &responses_stream;
    all_text(whole, sizeof whole);
    put(a, STREAM_HEAD, strlen(STREAM_HEAD));
    EVENT(a, "created", n++, "\"response\":" RESPONSE("in_progress", "", "null"));
    EVENT(a, "in_progress", n++, "\"response\":" RESPONSE("in_progress", "", "null"));
    EVENT(a, "output_item.added", n++, "\"output_index\":0,\"item\":" MESSAGE("in_progress", ""));
    EVENT(a, "content_part.added", n++, IN_ITEM ",\"part\":" TEXT_PART, "");
    for (int i = 0; i < DELTAS; i++) {
        EVENT(a, "output_text.delta", n++, IN_ITEM ",\"delta\":\"%s\",\"logprobs\":[]", delta_text(i, text, sizeof text));
        a->cut[a->cuts++] = a->len;
    }
    EVENT(a, "output_text.done", n++, IN_ITEM ",\"text\":\"%s\",\"logprobs\":[]", whole);
    EVENT(a, "content_part.done", n++, IN_ITEM ",\"part\":" TEXT_PART, whole);
    EVENT(a, "output_item.done", n++, "\"output_index\":0,\"item\":" MESSAGE("completed", TEXT_PART), whole);
    EVENT(a, "completed", n++, "\"response\":" RESPONSE("completed", MESSAGE("completed", TEXT_PART),
          "{\"input_tokens\":412,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":150,"
          "\"output_tokens_details\":{\"reasoning_tokens\":0},\"total_tokens\":562}"), whole);
    put(a, "0\r\n\r\n", 5);
    a->cut[DELTAS - 1] = a->len;
}

/* ---- Cursor runs; every message is short, so lengths take one byte ---- */

#define TOOL "bench_tool" /* a run that is offered this tool calls it */

/* A Connect envelope: flags, length, payload. */
static size_t envelope(char *out, char flags, const char *payload, size_t len) {
    char head[5] = {flags, 0, 0, (char)(len >> 8), (char)len};
    memcpy(out, head, 5);
    memcpy(out + 5, payload, len);
    return len + 5;
}

/* Writes a protobuf field: tag, length, content. The content may overlap the output. */
static size_t field(char *out, char tag, const char *content, size_t len) {
    memmove(out + 2, content, len);
    out[0] = tag;
    out[1] = (char)len;
    return len + 2;
}

/* interaction_update{text_delta{text}} */
static size_t text_delta(char *out, int n) {
    char text[96];
    size_t len = strlen(delta_text(n, text, sizeof text));
    for (int i = 0; i < 3; i++) len = field(text, 0x0a, text, len);
    return envelope(out, 0, text, len);
}

/* exec_server_message{id, mcp_args{name, args{"path": "a.txt"}, tool_call_id, tool_name}} */
static size_t tool_call(char *out, int n) {
    char args[128], message[128] = {0x08, (char)n};
    size_t len = field(args, 0x0a, TOOL, strlen(TOOL));
    len += field(args + len, 0x12, "\x0a\x04path\x12\x07\x1a\x05" "a.txt", 15);
    len += field(args + len, 0x1a, "toolu_bench", 11);
    len += field(args + len, 0x2a, TOOL, strlen(TOOL));
    len = 2 + field(message + 2, 0x5a, args, len);
    len = field(args, 0x12, message, len);
    return envelope(out, 0, args, len);
}

/* interaction_update{heartbeat} */
static size_t heartbeat(char *out) {
    return envelope(out, 0, "\x0a\x02\x6a\x00", 4);
}

/* interaction_update{turn_ended{input_tokens: 10, output_tokens: 2}} and the end of the stream */
static size_t turn_ended(char *out) {
    size_t len = envelope(out, 0, "\x0a\x06\x72\x04\x08\x0a\x10\x02", 8);
    return len + envelope(out + len, 2, "{}", 2);
}

static void raw_chunk(struct answer *a, const char *data, size_t len) {
    putf(a, "%zx\r\n", len);
    put(a, data, len);
    put(a, "\r\n", 2);
}

static void h2_frame(struct answer *a, char type, char flags, unsigned stream, const char *data, size_t len) {
    char id[4] = {(char)(stream >> 24), (char)(stream >> 16), (char)(stream >> 8), (char)stream};
    char head[9] = {0, (char)(len >> 8), (char)len, type, flags, id[0], id[1], id[2], id[3]};
    put(a, head, 9);
    put(a, data, len);
}

static void build_run(void) {
    char data[256];
    const char *type = "application/connect+proto";
    putf(&run_head, "HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\n\r\n", type);
    /* :status 200 by index; content-type (index 31) as a literal without indexing. */
    size_t len = (size_t)snprintf(data, sizeof data, "\x88\x0f\x10%c%s", (int)strlen(type), type);
    h2_frame(&run_head_frame, 1, 4, 0, data, len);
    for (int i = 0; i < DELTAS; i++) {
        len = text_delta(data, i);
        raw_chunk(&run_text, data, len);
        h2_frame(&run_text_frames, 0, 0, 0, data, len);
    }
    len = turn_ended(data);
    raw_chunk(&run_text, data, len);
    put(&run_text, "0\r\n\r\n", 5);
    h2_frame(&run_text_frames, 0, 1, 0, data, len);
    putf(&append_done, "HTTP/1.1 200 OK\r\ncontent-type: application/proto\r\ncontent-length: 0\r\n\r\n");
    /* As long as a real token. Its payload contains "exp": 3900000000. */
    json_answer(&login, "200 OK",
                "{\"accessToken\":\"eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJhdXRoMHx1c2VyXzAxQkVOQ0hCRU5DSEJFTkNIQkVOQ0h"
                "CRU5DSCIsInRpbWUiOiIxNzY3MjI1NjAwIiwicmFuZG9tbmVzcyI6IjAwMDAwMDAwLTAwMDAtNDAwMCIsImV4cCI6Mzk"
                "wMDAwMDAwMCwiaXNzIjoiaHR0cHM6Ly8xMjcuMC4wLjEiLCJzY29wZSI6Im9wZW5pZCBwcm9maWxlIGVtYWlsIG9mZmx"
                "pbmVfYWNjZXNzIiwiYXVkIjoiaHR0cHM6Ly8xMjcuMC4wLjEiLCJ0eXBlIjoic2Vzc2lvbiJ9.bench0bench0bench0"
                "bench0bench0bench0bench00"
                "\",\"refreshToken\":\"bench\"}");
}

static void build_answers(void) {
    build_anthropic();
    build_openai();
    build_responses();
    build_run();
    json_answer(&not_found, "404 Not Found",
                "{\"type\":\"error\",\"error\":{\"type\":\"not_found_error\",\"message\":\"no such path\"}}");
    json_answer(&bad_request, "400 Bad Request",
                "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no messages\"}}");
}
