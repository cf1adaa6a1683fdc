/* Parses one HTTP answer of a model API incrementally, and checks that every delta is present and in order. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { HEAD_MAX = 16384, BODY_MAX = 4 << 20 };
enum phase { HEAD, BODY_LENGTH, BODY_TO_CLOSE, CHUNK_SIZE, CHUNK_DATA, CHUNK_END, TRAILER, DONE, BROKEN };

struct answer {
    int64_t first_byte, first_delta; /* of the body */
    enum phase phase;
    int status, event_stream, close_after, got_bytes;
    char head[HEAD_MAX];
    size_t head_len;
    char line[64]; /* an incomplete chunk-size or trailer line */
    size_t line_len;
    size_t left; /* of the body or the chunk */
    char *body;
    size_t body_len, body_cap, scanned;
    int deltas, out_of_order;
    int text_done; /* the stream repeats the whole text after its deltas, as in the Responses API */
};

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

/* Prepares for the next answer. Keeps the body buffer. */
static void answer_reset(struct answer *a) {
    a->head_len = a->line_len = a->left = a->body_len = a->scanned = 0;
    a->first_byte = a->first_delta = 0;
    a->phase = HEAD;
    a->status = a->event_stream = a->close_after = a->got_bytes = a->deltas = a->out_of_order = 0;
    a->text_done = 0;
}

#define TEXT_DONE "event: response.output_text.done"

/* Finds the markers in the data received since the last call, up to the end of the deltas. */
static void answer_scan(struct answer *a) {
    if (a->text_done) return;
    size_t back = a->scanned < sizeof TEXT_DONE ? a->scanned : sizeof TEXT_DONE; /* it may be split over two reads */
    char *from = a->body + a->scanned - back;
    char *done = memmem(from, a->body_len - (size_t)(from - a->body), TEXT_DONE, strlen(TEXT_DONE));
    size_t end = done ? (size_t)(done - a->body) : a->body_len;
    a->text_done = done != NULL;
    while (end >= a->scanned + 5) {
        char *p = memmem(a->body + a->scanned, end - a->scanned, "tok", 3);
        if (!p) {
            a->scanned = end - 2;
            return;
        }
        size_t at = (size_t)(p - a->body);
        if (end - at < 5) {
            a->scanned = at;
            return;
        }
        a->scanned = at + 3;
        if (p[3] < '0' || p[3] > '9' || p[4] < '0' || p[4] > '9') continue; /* "tokens" and the like */
        if ((p[3] - '0') * 10 + (p[4] - '0') != a->deltas) a->out_of_order = 1;
        a->deltas++;
        if (!a->first_delta) a->first_delta = now_ns();
    }
}

static void add_body(struct answer *a, const char *data, size_t len) {
    if (a->body_len + len > BODY_MAX) {
        a->phase = BROKEN;
        return;
    }
    if (a->body_len + len > a->body_cap) {
        a->body_cap = (a->body_len + len) * 2;
        a->body = realloc(a->body, a->body_cap);
        if (!a->body) die("realloc");
    }
    if (!a->first_byte) a->first_byte = now_ns();
    memcpy(a->body + a->body_len, data, len);
    a->body_len += len;
}

static void parse_head(struct answer *a) {
    int length_known = 0, chunked = 0;
    a->head[a->head_len] = 0;
    if (sscanf(a->head, "HTTP/1.%*d %d", &a->status) != 1) {
        a->phase = BROKEN;
        return;
    }
    for (char *line = strchr(a->head, '\n') + 1; *line && *line != '\r'; line = strchr(line, '\n') + 1) {
        if (!strncasecmp(line, "content-length:", 15)) {
            a->left = strtoul(line + 15, NULL, 10);
            length_known = 1;
        } else if (!strncasecmp(line, "transfer-encoding:", 18)) {
            chunked = 1;
        } else if (!strncasecmp(line, "connection:", 11)) {
            a->close_after = strncasecmp(line + 11 + strspn(line + 11, " "), "close", 5) == 0;
        } else if (!strncasecmp(line, "content-type:", 13)) {
            a->event_stream = strncasecmp(line + 13 + strspn(line + 13, " "), "text/event-stream", 17) == 0;
        }
    }
    if (a->status < 200) {
        a->head_len = 0; /* 1xx: the real head follows */
        return;
    }
    if (chunked) a->phase = CHUNK_SIZE;
    else if (!length_known) a->phase = BODY_TO_CLOSE;
    else a->phase = a->left ? BODY_LENGTH : DONE;
}

/* Collects a line into a->line; returns 1 when it is complete. */
static int take_line(struct answer *a, const char **p, const char *end) {
    while (*p < end) {
        char ch = *(*p)++;
        if (ch == '\n') {
            a->line[a->line_len] = 0;
            return 1;
        }
        if (ch == '\r') continue;
        if (a->line_len + 1 < sizeof a->line) a->line[a->line_len++] = ch;
    }
    return 0;
}

static void answer_feed(struct answer *a, const char *p, size_t len) {
    const char *end = p + len;
    a->got_bytes = 1;
    while (p < end && a->phase < DONE) {
        size_t have = (size_t)(end - p), n;
        char *stop;
        switch (a->phase) {
        case HEAD: {
            n = have < HEAD_MAX - 1 - a->head_len ? have : HEAD_MAX - 1 - a->head_len;
            size_t from = a->head_len < 3 ? 0 : a->head_len - 3, before = a->head_len;
            memcpy(a->head + a->head_len, p, n);
            char *blank = memmem(a->head + from, before + n - from, "\r\n\r\n", 4);
            if (blank) {
                a->head_len = (size_t)(blank - a->head) + 4;
                p += a->head_len - before;
                parse_head(a);
            } else {
                a->head_len += n;
                p += n;
                if (a->head_len == HEAD_MAX - 1) a->phase = BROKEN;
            }
            break;
        }
        case BODY_LENGTH:
        case CHUNK_DATA:
            n = have < a->left ? have : a->left;
            add_body(a, p, n);
            p += n;
            a->left -= n;
            if (!a->left && a->phase != BROKEN) {
                a->phase = a->phase == CHUNK_DATA ? CHUNK_END : DONE;
                a->line_len = 0;
            }
            break;
        case BODY_TO_CLOSE:
            add_body(a, p, have);
            p = end;
            break;
        case CHUNK_SIZE:
            if (!take_line(a, &p, end)) break;
            a->left = strtoul(a->line, &stop, 16);
            a->phase = stop == a->line ? BROKEN : a->left ? CHUNK_DATA : TRAILER;
            a->line_len = 0;
            break;
        case CHUNK_END:
            if (!take_line(a, &p, end)) break;
            a->phase = a->line_len ? BROKEN : CHUNK_SIZE;
            a->line_len = 0;
            break;
        case TRAILER:
            if (!take_line(a, &p, end)) break;
            if (!a->line_len) a->phase = DONE;
            a->line_len = 0;
            break;
        default:
            break;
        }
    }
    if (p < end) a->phase = BROKEN; /* data after the end of the answer */
    if (a->body_len) answer_scan(a);
}

static int ends_well(const struct answer *a) {
    size_t tail = a->body_len < 256 ? a->body_len : 256;
    const char *from = a->body + a->body_len - tail;
    if (a->text_done) return memmem(a->body, a->body_len, "event: response.completed", 25) != NULL;
    return memmem(from, tail, "[DONE]", 6) || memmem(from, tail, "message_stop", 12);
}

/* Returns what is wrong with a complete answer, or NULL. */
static const char *answer_fault(const struct answer *a, int stream, int expected) {
    if (a->phase != DONE) return "malformed HTTP";
    if (a->status != 200) return "status is not 200";
    if (a->event_stream != stream) return stream ? "not an event stream" : "an event stream";
    if (a->out_of_order) return "deltas out of order";
    if (a->deltas != expected) return "deltas missing or too many";
    if (stream && !ends_well(a)) return "stream without its last event";
    return NULL;
}
