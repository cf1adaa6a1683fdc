/* Fake model API for the benchmark: one thread, epoll, canned answers.
 *
 * usage: upstream BURST_PORT PACED_PORT INTERVAL_MS
 *
 * POST /v1/messages answers in the Anthropic dialect, POST /v1/chat/completions and
 * (streams only) POST /v1/responses in the two OpenAI ones. A request whose body
 * contains "stream": true gets server-sent events (one HTTP chunk per event); any other gets JSON with the same text.
 * Each text delta of a stream is a separate send() with TCP_NODELAY, as model APIs do it: without a pause on the burst
 * port, one every INTERVAL_MS on the paced port.
 * For Cursor runs there are RunSSE with BidiAppend and, over HTTP/2 with prior knowledge, Run. They return the same
 * text, written at once. A run that is offered the tool "bench_tool" calls it CALLS times first and waits for each
 * result. GET /counts returns the number of runs, results and heartbeats.
 * Delta N starts with the marker "tokNN ", which the load generator checks.
 */
#define _GNU_SOURCE
#include "canned.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FD = 65536, MAX_BODY = 64 << 20, EVENTS = 512, MAX_STREAMS = 1 << 20, CALLS = 5, ID = 36, BUCKETS = 4096 };
enum { AWAKE_NS = 50000000 }; /* how long it polls after the last event before it sleeps */

enum kind { REQUEST, RESULT, HEARTBEAT, EXEC_HEARTBEAT, OTHER };

/* An HTTP/2 stream that carries a run. */
struct stream {
    uint32_t rest; /* bytes missing of the current message */
    enum kind kind; /* of the current message */
    int wants_call, calls;
};

/* A run over HTTP/1.1: its messages arrive on other connections than the one that receives its output. */
struct run {
    char id[ID];
    int calls;
    int has_request, wants_call; /* set if the request arrived before the output connection */
    struct conn *down;
    struct run *next;
};

struct conn {
    int fd, paced, waiting_to_write;
    char *in;
    size_t in_len, in_cap;
    const struct answer *answer; /* being sent, or NULL */
    size_t sent, allowed;
    int cut;
    struct answer own; /* an answer built for this connection */
    struct stream *streams; /* indexed by stream id / 2; NULL for HTTP/1.1 */
    struct run *run; /* whose output goes to this connection */
    int64_t due;
    struct conn *prev, *next; /* the pacing queue, sorted by due */
};

static struct conn *conns[MAX_FD];
static struct conn queue = {.prev = &queue, .next = &queue};
static int poller;
static int64_t interval_ns;
static struct run *runs[BUCKETS];
static struct { long runs, results, heartbeats, exec_heartbeats; } counts;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---- requests ---- */

/* Decodes a chunked body at p in place once it is complete. Sets *body_len and returns the encoded size, 0 if more data
 * is needed, -1 if it is malformed. */
static ssize_t unchunk(char *p, size_t len, size_t *body_len) {
    for (int copying = 0;; copying = 1) {
        size_t at = 0, to = 0, size;
        do {
            const char *line = memchr(p + at, '\n', len - at);
            if (!line) return 0;
            char *stop;
            size = strtoul(p + at, &stop, 16);
            if (stop == p + at || size > MAX_BODY) return -1;
            at = (size_t)(line - p) + 1;
            if (len - at < size + 2) return 0;
            if (copying) memmove(p + to, p + at, size);
            to += size;
            at += size + 2; /* trailers are not expected */
        } while (size);
        *body_len = to;
        if (copying) return (ssize_t)at;
    }
}

static int wants_stream(const char *body, size_t len) {
    const char *end = body + len, *p = body;
    while ((p = memmem(p, (size_t)(end - p), "\"stream\"", 8))) {
        p += 8;
        while (p < end && (*p == ' ' || *p == ':')) p++;
        if (end - p >= 4 && !memcmp(p, "true", 4)) return 1;
    }
    return 0;
}

/* ---- connections ---- */

static void unqueue(struct conn *c) {
    if (!c->next) return;
    c->prev->next = c->next;
    c->next->prev = c->prev;
    c->next = c->prev = NULL;
}

static void enqueue(struct conn *c) {
    struct conn *after = queue.prev;
    while (after != &queue && after->due > c->due) after = after->prev;
    c->prev = after;
    c->next = after->next;
    after->next->prev = c;
    after->next = c;
}

/* Returns the link to a run; it is NULL if there is no such run. */
static struct run **find_run(const char *id) {
    size_t hash = 0;
    for (int i = 0; i < ID; i++) hash = hash * 31 + (unsigned char)id[i];
    struct run **at = &runs[hash % BUCKETS];
    while (*at && memcmp((*at)->id, id, ID)) at = &(*at)->next;
    return at;
}

static struct run *open_run(const char *id) {
    struct run **at = find_run(id);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at) die("calloc");
        memcpy((*at)->id, id, ID);
    }
    return *at;
}

static void close_run(struct run *run) {
    struct run **at = find_run(run->id);
    *at = run->next;
    if (run->down) run->down->run = NULL;
    free(run);
}

static void drop(struct conn *c) {
    if (c->run) close_run(c->run);
    unqueue(c);
    conns[c->fd] = NULL;
    close(c->fd);
    free(c->in);
    free(c->own.data);
    free(c->streams);
    free(c);
}

static void watch(struct conn *c, int writing) {
    if (c->waiting_to_write == writing) return;
    c->waiting_to_write = writing;
    struct epoll_event e = {.events = EPOLLIN | (writing ? (uint32_t)EPOLLOUT : 0u), .data.fd = c->fd};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

/* Returns where the next send() ends: after the next delta. */
static size_t next_stop(struct conn *c) {
    if (c->paced) return c->allowed;
    while (c->cut < c->answer->cuts && c->answer->cut[c->cut] <= c->sent) c->cut++;
    return c->cut < c->answer->cuts ? c->answer->cut[c->cut] : c->allowed;
}

/* Sends up to c->allowed. Returns 0 if the connection was dropped. */
static int flush_out(struct conn *c) {
    while (c->sent < c->allowed) {
        ssize_t n = send(c->fd, c->answer->data + c->sent, next_stop(c) - c->sent, MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN) {
                watch(c, 1);
                return 1;
            }
            drop(c);
            return 0;
        }
        c->sent += (size_t)n;
    }
    watch(c, 0);
    if (c->sent == c->answer->len) {
        c->answer = NULL;
        c->own.len = 0;
    }
    return 1;
}

static int start_answer(struct conn *c, const struct answer *a) {
    c->answer = a;
    c->sent = 0;
    c->cut = 0;
    c->allowed = a->len;
    if (c->paced && a->cuts) {
        c->allowed = a->cut[0];
        c->due = now_ns() + interval_ns;
        enqueue(c);
    }
    return flush_out(c);
}

/* Sends what was added to c->own. Returns 0 if the connection was dropped. */
static int send_own(struct conn *c) {
    if (!c->own.len) return 1;
    if (c->answer != &c->own) return start_answer(c, &c->own);
    c->allowed = c->own.len;
    return flush_out(c);
}

/* ---- Cursor runs: `stream` is 0 over HTTP/1.1 ---- */

static uint32_t number(const unsigned char *p, int bytes) {
    uint32_t n = 0;
    while (bytes--) n = n << 8 | *p++;
    return n;
}

/* Adds canned frames and sets their stream id. */
static void put_frames(struct conn *c, const struct answer *frames, uint32_t stream) {
    size_t at = c->own.len;
    put(&c->own, frames->data, frames->len);
    for (; at < c->own.len; at += 9 + number((unsigned char *)c->own.data + at, 3)) {
        char id[4] = {(char)(stream >> 24), (char)(stream >> 16), (char)(stream >> 8), (char)stream};
        memcpy(c->own.data + at + 5, id, 4);
    }
}

static void put_message(struct conn *c, uint32_t stream, const char *data, size_t len) {
    if (stream) h2_frame(&c->own, 0, 0, stream, data, len);
    else raw_chunk(&c->own, data, len);
}

static void put_head(struct conn *c, uint32_t stream) {
    if (stream) put_frames(c, &run_head_frame, stream);
    else put(&c->own, run_head.data, run_head.len);
}

/* Sends the next tool call or all the text. Returns 0 if the run is complete. */
static int continue_run(struct conn *c, uint32_t stream, int *calls, int wants_call) {
    char data[256];
    if (wants_call && *calls < CALLS) {
        ++*calls;
        put_message(c, stream, data, tool_call(data, *calls));
        return 1;
    }
    if (stream) put_frames(c, &run_text_frames, stream);
    else put(&c->own, run_text.data, run_text.len);
    return 0;
}

static int has_tool(const char *data, size_t len) {
    return memmem(data, len, TOOL, strlen(TOOL)) != NULL;
}

/* Determines the kind of a message from its first bytes. */
static enum kind kind_of(const char *message, size_t len) {
    switch (message[0]) {
    case 0x0a: return REQUEST;
    case 0x12: return RESULT; /* exec_client_message */
    case 0x2a: return len > 2 && message[2] == 0x1a ? EXEC_HEARTBEAT : OTHER; /* exec_client_control_message */
    case 0x3a: return HEARTBEAT;
    default: return OTHER;
    }
}

/* Handles a message of a run that has an output connection. Returns 0 if the run is complete. */
static int handle_message(struct conn *c, uint32_t stream, int *calls, enum kind kind, int wants_call) {
    char data[256];
    switch (kind) {
    case REQUEST:
        counts.runs++;
        put_head(c, stream);
        return continue_run(c, stream, calls, wants_call);
    case RESULT:
        counts.results++;
        return continue_run(c, stream, calls, 1);
    case HEARTBEAT:
        counts.heartbeats++;
        put_message(c, stream, data, heartbeat(data));
        return 1;
    case EXEC_HEARTBEAT:
        counts.exec_heartbeats++;
        return 1;
    default:
        return 1;
    }
}

/* RunSSE; the request of the run may have arrived before. */
static const struct answer *open_output(struct conn *c, const char *body, size_t len) {
    if (len < 7 + ID) return &bad_request;
    struct run *run = open_run(body + 7); /* after the envelope's head and the field's */
    run->down = c;
    c->run = run;
    if (!run->has_request) return NULL;
    if (!handle_message(c, 0, &run->calls, REQUEST, run->wants_call)) close_run(run);
    return &c->own;
}

/* BidiAppend{data (hexadecimal), request_id{request_id}, append_seqno} */
static const struct answer *append(char *body, size_t len) {
    size_t at = 1, size = 0;
    for (int shift = 0; at < len && shift < 28; shift += 7) {
        size |= (size_t)(body[at] & 0x7f) << shift;
        if (!(body[at++] & 0x80)) break;
    }
    if (size < 2 || len < at + size + 4 + ID) return &bad_request;
    const char *id = body + at + size + 4;
    for (size_t i = 0; i < size; i++) {
        char digit = (char)((body[at + i] & 15) + 9 * (body[at + i] >> 6));
        body[i / 2] = (char)(i % 2 ? body[i / 2] | digit : digit << 4);
    }
    enum kind kind = kind_of(body, size / 2);
    int wants_call = kind == REQUEST && has_tool(body, size / 2);
    struct run *run = kind == REQUEST ? open_run(id) : *find_run(id);
    if (run && run->down) {
        struct conn *down = run->down;
        if (!handle_message(down, 0, &run->calls, kind, wants_call)) close_run(run);
        send_own(down);
    } else if (run && kind == REQUEST) {
        run->has_request = 1;
        run->wants_call = wants_call;
    }
    return &append_done;
}

/* ---- HTTP/2 ---- */

/* Parses Connect envelopes. A long one may continue in the next frame; its header is never split. */
static void handle_frame(struct conn *c, uint32_t id, const char *data, uint32_t len) {
    if (id / 2 >= MAX_STREAMS) return;
    struct stream *stream = &c->streams[id / 2];
    while (len) {
        if (!stream->rest) {
            if (len <= 5) return;
            stream->rest = number((const unsigned char *)data + 1, 4);
            data += 5;
            len -= 5;
            stream->kind = kind_of(data, len);
            stream->wants_call = 0;
        }
        uint32_t taken = stream->rest < len ? stream->rest : len;
        stream->wants_call |= stream->kind == REQUEST && has_tool(data, taken);
        stream->rest -= taken;
        if (!stream->rest) handle_message(c, id, &stream->calls, stream->kind, stream->wants_call);
        data += taken;
        len -= taken;
    }
}

/* Updates the flow-control window at once, answers pings, acknowledges settings. */
static void reply_h2(struct conn *c, const unsigned char *frame, uint32_t len) {
    char update[4] = {(char)(len >> 24), (char)(len >> 16), (char)(len >> 8), (char)len};
    if (frame[3] == 4 && !(frame[4] & 1)) h2_frame(&c->own, 4, 1, 0, "", 0);
    if (frame[3] == 6 && !(frame[4] & 1)) h2_frame(&c->own, 6, 1, 0, (const char *)frame + 9, len);
    if (frame[3] != 0 || !len) return;
    h2_frame(&c->own, 8, 0, 0, update, 4);
    handle_frame(c, number(frame + 5, 4) & 0x7fffffff, (const char *)frame + 9, len);
}

static int serve_h2(struct conn *c) {
    size_t at = 0;
    if (!c->streams) {
        if (c->in_len < 24) return 1;
        c->streams = calloc(MAX_STREAMS, sizeof *c->streams);
        if (!c->streams) die("calloc");
        at = 24;
        h2_frame(&c->own, 4, 0, 0, "\0\4\0\xff\0\0", 6); /* windows of 16 MiB */
    }
    while (c->in_len - at >= 9) {
        const unsigned char *frame = (unsigned char *)c->in + at;
        uint32_t len = number(frame, 3);
        if (c->in_len - at < 9 + len) break;
        reply_h2(c, frame, len);
        at += 9 + len;
    }
    c->in_len -= at;
    memmove(c->in, c->in + at, c->in_len + 1);
    return send_own(c);
}

/* ---- HTTP/1.1 ---- */

static const struct answer *count_answer(struct conn *c) {
    char body[160];
    snprintf(body, sizeof body, "{\"runs\":%ld,\"results\":%ld,\"heartbeats\":%ld,\"exec_heartbeats\":%ld}", counts.runs,
             counts.results, counts.heartbeats, counts.exec_heartbeats);
    json_answer(&c->own, "200 OK", body);
    return &c->own;
}

/* Returns the answer to a request, or NULL if it follows later. */
static const struct answer *choose(struct conn *c, const char *head, char *body, size_t body_len) {
    if (!strncmp(head, "GET /counts", 11)) return count_answer(c);
    if (strncmp(head, "POST ", 5)) return &not_found;
    if (!strncmp(head + 5, "/agent.v1.AgentService/RunSSE", 29)) return open_output(c, body, body_len);
    if (!strncmp(head + 5, "/aiserver.v1.BidiService/BidiAppend", 35)) return append(body, body_len);
    if (!strncmp(head + 5, "/auth/exchange_user_api_key", 27)) return &login;
    if (!memmem(body, body_len, "\"messages\"", 10) && !memmem(body, body_len, "\"input\"", 7)) return &bad_request;
    int stream = wants_stream(body, body_len);
    if (!strncmp(head + 5, "/v1/messages", 12)) return stream ? &anthropic_stream : &anthropic_json;
    if (!strncmp(head + 5, "/v1/chat/completions", 20)) return stream ? &openai_stream : &openai_json;
    if (!strncmp(head + 5, "/v1/responses", 13)) return &responses_stream;
    return &not_found;
}

/* Answers every complete request in the input buffer, in order. */
static int serve(struct conn *c) {
    if (c->streams || !strncmp(c->in, "PRI * HTTP/2.0\r\n", c->in_len < 16 ? c->in_len : 16)) return serve_h2(c);
    while (!c->answer && c->in_len) {
        char *stop = memmem(c->in, c->in_len, "\r\n\r\n", 4);
        if (!stop) return 1;
        size_t head_len = (size_t)(stop - c->in) + 4, body_len = 0;
        int chunked = 0;
        for (char *line = strchr(c->in, '\n') + 1; line < stop; line = strchr(line, '\n') + 1) {
            if (!strncasecmp(line, "content-length:", 15)) body_len = strtoul(line + 15, NULL, 10);
            if (!strncasecmp(line, "transfer-encoding:", 18)) chunked = 1;
        }
        size_t taken = body_len;
        if (chunked) {
            ssize_t n = unchunk(c->in + head_len, c->in_len - head_len, &body_len);
            if (n == 0) return 1;
            if (n < 0) {
                drop(c);
                return 0;
            }
            taken = (size_t)n;
        }
        if (taken > MAX_BODY) {
            drop(c);
            return 0;
        }
        if (c->in_len < head_len + taken) return 1;
        const struct answer *a = choose(c, c->in, c->in + head_len, body_len);
        c->in_len -= head_len + taken;
        memmove(c->in, c->in + head_len + taken, c->in_len + 1);
        if (a && !start_answer(c, a)) return 0;
    }
    return 1;
}

static void readable(struct conn *c) {
    for (;;) {
        if (c->in_cap - c->in_len < 2) { /* one byte is reserved for a terminating zero */
            if (c->in_cap > MAX_BODY) {
                drop(c);
                return;
            }
            c->in_cap *= 2;
            c->in = realloc(c->in, c->in_cap);
            if (!c->in) die("realloc");
        }
        size_t room = c->in_cap - c->in_len - 1;
        ssize_t n = recv(c->fd, c->in + c->in_len, room, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n <= 0) {
            drop(c);
            return;
        }
        c->in_len += (size_t)n;
        c->in[c->in_len] = 0;
        if ((size_t)n < room) break;
    }
    serve(c);
}

static void pace(int64_t now) {
    while (queue.next != &queue && queue.next->due <= now) {
        struct conn *c = queue.next;
        unqueue(c);
        while (c->due <= now && c->cut + 1 < c->answer->cuts) {
            c->allowed = c->answer->cut[++c->cut];
            c->due += interval_ns;
        }
        if (c->cut + 1 < c->answer->cuts) enqueue(c);
        if (flush_out(c) && !c->answer) serve(c);
    }
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096)) die("listen");
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    return fd;
}

static void accept_all(int listener, int paced) {
    for (;;) {
        int on = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0) return;
        struct conn *c = fd < MAX_FD ? calloc(1, sizeof *c) : NULL;
        char *in = c ? malloc(16384) : NULL;
        if (!in) {
            free(c);
            close(fd);
            continue;
        }
        c->fd = fd;
        c->paced = paced;
        c->in = in;
        c->in_cap = 16384;
        conns[fd] = c;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
        epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
    }
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fprintf(stderr, "usage: upstream BURST_PORT PACED_PORT INTERVAL_MS\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    interval_ns = atol(argv[3]) * 1000000LL;
    build_answers();
    poller = epoll_create1(0);
    int burst = listen_on(atoi(argv[1])), paced = listen_on(atoi(argv[2]));
    puts("ready");
    fflush(stdout);
    static struct epoll_event events[EVENTS];
    int64_t last_event = 0;
    for (;;) {
        /* Sleep only between measurements: waking a sleeping process is charged to the server that writes to it. */
        int64_t now = now_ns();
        int is_awake = queue.next != &queue || now - last_event < AWAKE_NS;
        int n = epoll_wait(poller, events, EVENTS, is_awake ? 0 : -1);
        if (n > 0) last_event = now;
        else if (is_awake) sched_yield();
        if (queue.next != &queue) pace(now_ns());
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == burst || fd == paced) {
                accept_all(fd, fd == paced);
                continue;
            }
            struct conn *c = conns[fd];
            if (!c) continue; /* dropped while handling an earlier event */
            if (events[i].events & EPOLLOUT) {
                if (!flush_out(c) || (!c->answer && !serve(c))) continue;
            }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
        }
    }
}
