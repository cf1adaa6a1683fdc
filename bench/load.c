/* Load generator for the benchmark: one thread, epoll, keep-alive connections in a closed loop.
 *
 * usage: load --port N --path P --body FILE [--body FILE ...] [--headers FILE] [--mode stream|json] [--concurrency N]
 *             [--requests N | --seconds S] [--ramp MS] [--grace S] [--deltas N] [--conversations N] [--first N]
 *
 * Every answer is parsed (content-length, chunked, or until close). Its body must contain the markers tok00, tok01, ...
 * in order and complete; a stream must also end with its dialect's last event. Anything else is an error.
 * With --seconds, no request starts after the deadline, and pending ones have --grace seconds to complete.
 * "rps" is measured until the last answer is complete, "deltas_per_s" from the end of the ramp to the deadline.
 *
 * With --conversations N, the bodies are successive requests of a conversation, and each of N conversations sends each
 * of them once. A connection owns a share of the conversations: all of them send the first body, then the second, and so
 * on. The number of the conversation, counted from --first, replaces the digits of every "conv-00000000" in the body.
 */
#define _GNU_SOURCE
#include "answer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { EVENTS = 512, READ_SIZE = 256 << 10, MAX_RUN_S = 300, MAX_BODIES = 64 };

#define CONVERSATION "conv-00000000"

/* A request: head and body, and where the conversation number goes. */
struct request {
    char *data;
    size_t len;
    size_t *numbers;
    size_t count;
};

struct conn {
    int fd; /* -1: not connected */
    int busy, connecting, served, writing;
    const char *out; /* the request that is being sent */
    size_t out_len, sent;
    char *copy; /* of a request, with its conversation number */
    size_t copy_cap;
    long count; /* requests so far */
    int64_t began;
    struct answer answer;
};

struct samples {
    uint32_t *us;
    size_t len, cap;
};

static int port, mode_stream = 1, concurrency = 1, expected = 50;
static long max_requests;
static double run_seconds, grace_seconds = 20;
static int64_t ramp_ns;
static const char *path = "/";
static struct request requests[MAX_BODIES];
static long bodies, conversations, first_conversation;

static int poller;
static struct conn *conns;
static struct samples ttfb, first_delta, latency;
static long started, good, errors, retries, delta_count;
static int in_flight;
static char first_error[256];
static int64_t begin, deadline, last_end;

static char *read_file(const char *name, size_t *len) {
    FILE *f = fopen(name, "rb");
    if (!f) die(name);
    fseek(f, 0, SEEK_END);
    *len = (size_t)ftell(f);
    rewind(f);
    char *data = malloc(*len + 1);
    if (!data || fread(data, 1, *len, f) != *len) die(name);
    data[*len] = 0;
    fclose(f);
    return data;
}

static void note(struct samples *s, int64_t ns) {
    if (s->len == s->cap) {
        s->cap = s->cap ? s->cap * 2 : 65536;
        s->us = realloc(s->us, s->cap * sizeof *s->us);
        if (!s->us) die("realloc");
    }
    s->us[s->len++] = (uint32_t)(ns / 1000);
}

/* ---- connections ---- */

static void disconnect(struct conn *c) {
    if (c->fd >= 0) close(c->fd);
    c->fd = -1;
    c->served = c->writing = c->connecting = 0;
}

static void connect_to(struct conn *c) {
    int on = 1;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (c->fd < 0) die("socket");
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    c->connecting = connect(c->fd, (struct sockaddr *)&address, sizeof address) != 0;
    c->writing = 1;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e);
}

static void watch(struct conn *c, int writing) {
    if (c->writing == writing) return;
    c->writing = writing;
    struct epoll_event e = {.events = EPOLLIN | (writing ? (uint32_t)EPOLLOUT : 0u), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

static int more_wanted(int64_t now) {
    if (max_requests) return started < max_requests;
    return now < deadline;
}

static void begin_answer(struct conn *c) {
    c->sent = 0;
    answer_reset(&c->answer);
}

static int push(struct conn *c);

/* Returns how many conversations a connection owns. */
static long owned(const struct conn *c) {
    return (conversations - (c - conns) + concurrency - 1) / concurrency;
}

/* Chooses the next request of a connection. Returns 0 if it has sent all of them. */
static int choose_request(struct conn *c) {
    long own = conversations ? owned(c) : 1, step = conversations && own ? c->count / own : 0;
    if (!own || step >= bodies) return 0;
    const struct request *r = &requests[step];
    c->out = r->data;
    c->out_len = r->len;
    long conversation = first_conversation + c->count % own * concurrency + (c - conns);
    c->count++;
    if (!conversations || !r->count) return 1;
    if (c->copy_cap < r->len) {
        c->copy_cap = r->len;
        c->copy = realloc(c->copy, c->copy_cap);
        if (!c->copy) die("realloc");
    }
    memcpy(c->copy, r->data, r->len);
    char digits[16];
    snprintf(digits, sizeof digits, "%08ld", conversation % 100000000);
    for (size_t i = 0; i < r->count; i++) memcpy(c->copy + r->numbers[i], digits, 8);
    c->out = c->copy;
    return 1;
}

/* Starts the next request on this connection if one is wanted. A failure to send is reported as an event. */
static void next_request(struct conn *c) {
    int64_t now = now_ns();
    if (!more_wanted(now) || !choose_request(c)) return;
    started++;
    in_flight++;
    c->busy = 1;
    c->began = now;
    begin_answer(c);
    if (c->fd < 0) connect_to(c);
    else push(c);
}

static void finish(struct conn *c, const char *problem) {
    int64_t now = now_ns();
    in_flight--;
    c->busy = 0;
    last_end = now;
    if (problem) {
        errors++;
        if (!first_error[0]) {
            const struct answer *a = &c->answer;
            int shown = (int)(a->body_len < 120 ? a->body_len : 120);
            snprintf(first_error, sizeof first_error, "%s (status %d, %d deltas): %.*s", problem, a->status, a->deltas,
                     shown, a->body_len ? a->body : "");
        }
        disconnect(c);
        return;
    }
    good++;
    note(&ttfb, c->answer.first_byte - c->began);
    if (c->answer.first_delta) note(&first_delta, c->answer.first_delta - c->began);
    note(&latency, now - c->began);
    if (c->answer.close_after || c->answer.phase == BODY_TO_CLOSE) disconnect(c);
    else c->served = 1;
}

/* Handles a broken connection. If a kept-alive one closed before it sent anything, retry on a new one. */
static void broke(struct conn *c, const char *problem) {
    if (!c->busy) {
        disconnect(c);
        return;
    }
    if (c->served && !c->answer.got_bytes) {
        retries++;
        disconnect(c);
        begin_answer(c);
        connect_to(c);
        return;
    }
    finish(c, problem);
    next_request(c);
}

static int push(struct conn *c) {
    while (c->sent < c->out_len) {
        ssize_t n = send(c->fd, c->out + c->sent, c->out_len - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) {
            watch(c, 1);
            return 1;
        }
        if (n < 0) {
            watch(c, 1); /* the error is reported as an event, which avoids recursion */
            return 0;
        }
        c->sent += (size_t)n;
    }
    watch(c, 0);
    return 1;
}

static void receive(struct conn *c) {
    static char buffer[READ_SIZE];
    ssize_t n = recv(c->fd, buffer, sizeof buffer, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
        if (n == 0 && c->busy && c->answer.phase == BODY_TO_CLOSE) {
            c->answer.phase = DONE;
            c->answer.close_after = 1;
        } else {
            broke(c, n == 0 ? "closed before the end" : "connection lost");
            return;
        }
    } else if (!c->busy) {
        disconnect(c);
        return;
    } else {
        int before = c->answer.deltas;
        answer_feed(&c->answer, buffer, (size_t)n);
        delta_count += c->answer.deltas - before;
    }
    if (c->answer.phase >= DONE) {
        finish(c, answer_fault(&c->answer, mode_stream, expected));
        next_request(c);
    }
}

static void handle(struct conn *c, uint32_t what) {
    if (c->fd < 0) return;
    if (what & EPOLLOUT && c->busy) {
        if (c->connecting) {
            int failure = 0;
            socklen_t len = sizeof failure;
            getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &failure, &len);
            if (failure) {
                broke(c, "cannot connect");
                return;
            }
            c->connecting = 0;
        }
        if (!push(c)) {
            broke(c, "cannot send");
            return;
        }
    }
    if (what & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(c);
}

/* ---- the run ---- */

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print_samples(const char *name, struct samples *s) {
    double sum = 0;
    if (s->len) qsort(s->us, s->len, sizeof *s->us, by_value);
    for (size_t i = 0; i < s->len; i++) sum += s->us[i];
    printf("\"%s_mean_us\":%.1f,\"%s_p50_us\":%u,\"%s_p99_us\":%u,", name, s->len ? sum / (double)s->len : 0.0, name,
           s->len ? s->us[s->len / 2] : 0, name, s->len ? s->us[s->len * 99 / 100] : 0);
}

static void print_text(const char *text) {
    putchar('"');
    for (; *text; text++) {
        unsigned char ch = (unsigned char)*text;
        if (ch == '"' || ch == '\\') putchar('\\');
        putchar(ch < 32 || ch > 126 ? ' ' : ch);
    }
    putchar('"');
}

static void find_numbers(struct request *r, size_t from) {
    size_t digits = strlen("conv-"), cap = 0;
    char *p = r->data + from, *end = r->data + r->len;
    while ((p = memmem(p, (size_t)(end - p), CONVERSATION, strlen(CONVERSATION)))) {
        if (r->count == cap) {
            cap = cap ? cap * 2 : 64;
            r->numbers = realloc(r->numbers, cap * sizeof *r->numbers);
            if (!r->numbers) die("realloc");
        }
        r->numbers[r->count++] = (size_t)(p - r->data) + digits;
        p += strlen(CONVERSATION);
    }
}

static void build_request(const char *body_file, const char *header_file) {
    size_t body_len, header_len = 0;
    char *body = read_file(body_file, &body_len);
    char *headers = header_file ? read_file(header_file, &header_len) : "";
    struct request *r = &requests[bodies++];
    r->data = malloc(strlen(path) + header_len * 2 + body_len + 512);
    if (!r->data) die("malloc");
    char *p = r->data + sprintf(r->data, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                                         "Accept: */*\r\nContent-Length: %zu\r\n", path, port, body_len);
    for (size_t i = 0; i < header_len; i++) { /* one header per line in the file */
        if (headers[i] == '\n') *p++ = '\r';
        *p++ = headers[i];
    }
    if (header_len && headers[header_len - 1] != '\n') p += sprintf(p, "\r\n");
    p += sprintf(p, "\r\n");
    memcpy(p, body, body_len);
    r->len = (size_t)(p - r->data) + body_len;
    find_numbers(r, (size_t)(p - r->data));
    free(body);
    if (header_file) free(headers);
}

static void parse_args(int argc, char **argv) {
    const char *body_files[MAX_BODIES], *header_file = NULL;
    int files = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--path")) path = value;
        else if (!strcmp(name, "--body") && files < MAX_BODIES) body_files[files++] = value;
        else if (!strcmp(name, "--headers")) header_file = value;
        else if (!strcmp(name, "--mode")) mode_stream = !strcmp(value, "stream");
        else if (!strcmp(name, "--concurrency")) concurrency = atoi(value);
        else if (!strcmp(name, "--requests")) max_requests = atol(value);
        else if (!strcmp(name, "--seconds")) run_seconds = atof(value);
        else if (!strcmp(name, "--grace")) grace_seconds = atof(value);
        else if (!strcmp(name, "--ramp")) ramp_ns = atol(value) * 1000000LL;
        else if (!strcmp(name, "--deltas")) expected = atoi(value);
        else if (!strcmp(name, "--conversations")) conversations = atol(value);
        else if (!strcmp(name, "--first")) first_conversation = atol(value);
        else argc = 0;
    }
    if (argc % 2 == 0 || !port || !files || concurrency < 1 || (!max_requests && run_seconds <= 0 && !conversations)) {
        fprintf(stderr, "usage: load --port N --path P --body FILE... (--requests N | --seconds S) [--headers FILE]\n"
                        "            [--mode stream|json] [--concurrency N] [--ramp MS] [--grace S] [--deltas N]\n"
                        "            [--conversations N] [--first N]\n");
        exit(2);
    }
    for (int i = 0; i < files; i++) build_request(body_files[i], header_file);
    if (conversations) max_requests = conversations * bodies;
}

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    parse_args(argc, argv);
    poller = epoll_create1(0);
    conns = calloc((size_t)concurrency, sizeof *conns);
    if (!conns) die("calloc");
    for (int i = 0; i < concurrency; i++) conns[i].fd = -1;

    begin = last_end = now_ns();
    int64_t window_begin = begin + ramp_ns, window_end = 0;
    deadline = max_requests ? begin + MAX_RUN_S * 1000000000LL : window_begin + (int64_t)(run_seconds * 1e9);
    int64_t limit = deadline + (int64_t)(grace_seconds * 1e9);
    long window_deltas = 0, deltas_before = 0;
    int opened = 0, ramped = 0;
    static struct epoll_event events[EVENTS];
    for (;;) {
        int64_t now = now_ns();
        while (opened < concurrency && now >= begin + ramp_ns * opened / concurrency) next_request(&conns[opened++]);
        if (!ramped && now >= window_begin) {
            ramped = 1;
            window_begin = now;
            deltas_before = delta_count;
        }
        if (!window_end && now >= deadline) {
            window_end = now;
            window_deltas = delta_count - deltas_before;
        }
        if ((opened == concurrency && in_flight == 0 && !more_wanted(now)) || now > limit) break;
        /* Poll instead of sleeping: waking a sleeping process is charged to the server that writes to it, and on a
           virtual machine that costs more than a small request. */
        int n = epoll_wait(poller, events, EVENTS, 0);
        if (n == 0) sched_yield();
        for (int i = 0; i < n; i++) handle(events[i].data.ptr, events[i].events);
    }
    for (int i = 0; i < concurrency; i++) {
        if (conns[i].busy) finish(&conns[i], "not finished in time");
    }
    if (!window_end) {
        window_end = last_end;
        window_deltas = delta_count - deltas_before;
    }
    double seconds = (double)(last_end - begin) / 1e9, window = (double)(window_end - window_begin) / 1e9;
    printf("{\"requests\":%ld,\"errors\":%ld,\"retries\":%ld,\"seconds\":%.4f,\"rps\":%.2f,\"deltas\":%ld,"
           "\"deltas_per_s\":%.1f,", good, errors, retries, seconds, seconds > 0 ? (double)good / seconds : 0.0,
           delta_count, window > 0 ? (double)window_deltas / window : 0.0);
    print_samples("ttfb", &ttfb);
    print_samples("first_delta", &first_delta);
    print_samples("latency", &latency);
    printf("\"first_error\":");
    print_text(first_error);
    printf("}\n");
    return 0;
}
