/* Fake model API for the benchmark: one thread, epoll, canned answers.
 *
 * usage: upstream BURST_PORT PACED_PORT INTERVAL_MS
 *
 * POST /v1/messages answers in the Anthropic dialect, POST /v1/chat/completions in the OpenAI one; a request whose
 * body says "stream": true gets server-sent events (one chunk per event), any other gets JSON of the same text.
 * The burst port writes a stream at once; the paced port writes one text delta every INTERVAL_MS.
 * For agent runs there are RunSSE with BidiAppend, and over HTTP/2 (by prior knowledge) Run: the same text, at once.
 * Delta N starts with the marker "tokNN ", which the load generator looks for.
 */
#define _GNU_SOURCE
#include "canned.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MAX_FD = 65536, MAX_BODY = 64 << 20, EVENTS = 512, MAX_STREAMS = 1 << 20 };

struct conn {
    int fd, paced, waiting_to_write;
    char *in;
    size_t in_len, in_cap;
    const struct answer *answer; /* being sent, or NULL */
    size_t sent, allowed;
    int cut;
    struct answer own; /* what is being sent over HTTP/2 */
    unsigned char *answered; /* one per stream of HTTP/2; NULL while it is HTTP/1.1 */
    int64_t due;
    struct conn *prev, *next; /* the pacing queue, sorted by due */
};

static struct conn *conns[MAX_FD];
static struct conn queue = {.prev = &queue, .next = &queue};
static int poller;
static int64_t interval_ns;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* ---- requests ---- */

/* Takes the framing out of a chunked body at p, in place, once it is complete: sets *body_len and returns how many
 * bytes it took up; 0 if more is needed, -1 if it is malformed. */
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

static const struct answer *choose(const char *head, const char *body, size_t body_len) {
    int stream = wants_stream(body, body_len);
    if (strncmp(head, "POST ", 5)) return &not_found;
    if (!strncmp(head + 5, "/agent.v1.AgentService/RunSSE", 29)) return &run_stream;
    if (!strncmp(head + 5, "/aiserver.v1.BidiService/BidiAppend", 35)) return &append_done;
    if (!memmem(body, body_len, "\"messages\"", 10)) return &bad_request;
    if (!strncmp(head + 5, "/v1/messages", 12)) return stream ? &anthropic_stream : &anthropic_json;
    if (!strncmp(head + 5, "/v1/chat/completions", 20)) return stream ? &openai_stream : &openai_json;
    return &not_found;
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

static void drop(struct conn *c) {
    unqueue(c);
    conns[c->fd] = NULL;
    close(c->fd);
    free(c->in);
    free(c->own.data);
    free(c->answered);
    free(c);
}

static void watch(struct conn *c, int writing) {
    if (c->waiting_to_write == writing) return;
    c->waiting_to_write = writing;
    struct epoll_event e = {.events = EPOLLIN | (writing ? (uint32_t)EPOLLOUT : 0u), .data.fd = c->fd};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

/* Sends what is allowed; returns 0 when the connection was dropped. */
static int flush_out(struct conn *c) {
    while (c->sent < c->allowed) {
        ssize_t n = send(c->fd, c->answer->data + c->sent, c->allowed - c->sent, MSG_NOSIGNAL);
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
    if (c->sent == c->answer->len) c->answer = NULL;
    return 1;
}

static int start_answer(struct conn *c, const struct answer *a) {
    c->answer = a;
    c->sent = 0;
    c->allowed = a->len;
    if (c->paced && a->cuts) {
        c->cut = 0;
        c->allowed = a->cut[0];
        c->due = now_ns() + interval_ns;
        enqueue(c);
    }
    return flush_out(c);
}

/* ---- HTTP/2 ---- */

static uint32_t number(const unsigned char *p, int bytes) {
    uint32_t n = 0;
    while (bytes--) n = n << 8 | *p++;
    return n;
}

static void run_answer(struct conn *c, uint32_t stream) {
    if (stream / 2 >= MAX_STREAMS || c->answered[stream / 2]) return;
    c->answered[stream / 2] = 1;
    size_t at = c->own.len;
    put(&c->own, run_frames.data, run_frames.len);
    while (at < c->own.len) { /* every frame gets the id of its stream */
        unsigned char *frame = (unsigned char *)c->own.data + at;
        frame[5] = (unsigned char)(stream >> 24);
        frame[6] = (unsigned char)(stream >> 16);
        frame[7] = (unsigned char)(stream >> 8);
        frame[8] = (unsigned char)stream;
        at += 9 + number(frame, 3);
    }
}

/* Data that came is allowed again at once, a ping comes back, settings are acknowledged; a run is answered when its
 * first message is there. */
static void h2_answer(struct conn *c, const unsigned char *frame, uint32_t len) {
    uint32_t stream = number(frame + 5, 4) & 0x7fffffff;
    char update[4] = {(char)(len >> 24), (char)(len >> 16), (char)(len >> 8), (char)len};
    if (frame[3] == 4 && !(frame[4] & 1)) h2_frame(&c->own, 4, 1, "", 0);
    if (frame[3] == 6 && !(frame[4] & 1)) h2_frame(&c->own, 6, 1, (const char *)frame + 9, len);
    if (frame[3] != 0 || !len) return;
    h2_frame(&c->own, 8, 0, update, 4);
    run_answer(c, stream);
}

static int serve_h2(struct conn *c) {
    size_t at = 0;
    if (!c->answered) {
        if (c->in_len < 24) return 1;
        c->answered = calloc(MAX_STREAMS, 1);
        if (!c->answered) die("calloc");
        at = 24;
        h2_frame(&c->own, 4, 0, "", 0);
    }
    while (c->in_len - at >= 9) {
        const unsigned char *frame = (unsigned char *)c->in + at;
        uint32_t len = number(frame, 3);
        if (c->in_len - at < 9 + len) break;
        h2_answer(c, frame, len);
        at += 9 + len;
    }
    c->in_len -= at;
    memmove(c->in, c->in + at, c->in_len + 1);
    if (c->answer != &c->own) {
        c->answer = &c->own;
        c->sent = 0;
    }
    c->allowed = c->own.len;
    if (!flush_out(c)) return 0;
    if (!c->answer) c->own.len = c->sent = 0;
    return 1;
}

/* Answers every complete request in the input buffer, one after the other. */
static int serve(struct conn *c) {
    if (c->answered || !strncmp(c->in, "PRI * HTTP/2.0\r\n", c->in_len < 16 ? c->in_len : 16)) return serve_h2(c);
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
        const struct answer *a = choose(c->in, c->in + head_len, body_len);
        c->in_len -= head_len + taken;
        memmove(c->in, c->in + head_len + taken, c->in_len + 1);
        if (!start_answer(c, a)) return 0;
    }
    return 1;
}

static void readable(struct conn *c) {
    for (;;) {
        if (c->in_cap - c->in_len < 2) { /* one byte is kept for a terminating zero */
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
    for (;;) {
        int timeout = -1;
        if (queue.next != &queue) {
            int64_t left = queue.next->due - now_ns();
            timeout = left <= 0 ? 0 : (int)((left + 999999) / 1000000);
        }
        int n = epoll_wait(poller, events, EVENTS, timeout);
        if (queue.next != &queue) pace(now_ns());
        for (int i = 0; i < n; i++) {
            int fd = events[i].data.fd;
            if (fd == burst || fd == paced) {
                accept_all(fd, fd == paced);
                continue;
            }
            struct conn *c = conns[fd];
            if (!c) continue; /* dropped a moment ago */
            if (events[i].events & EPOLLOUT) {
                if (!flush_out(c) || (!c->answer && !serve(c))) continue;
            }
            if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
        }
    }
}
