/* A coding agent for the benchmark: speaks ACP on standard input and output and answers every prompt with 50 chunks.
 *
 * usage: acp_agent PACE_US
 *
 * With a pace, chunks are written separately, that many microseconds apart; with 0, a turn is one write. A chunk
 * contains its number and the time it was written (CLOCK_MONOTONIC, nanoseconds), so that the reader can compute its age.
 * It parses the JSON that Tieline sends, not JSON in general.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { CHUNKS = 50, NAME_MAX_LEN = 32, TURNS_MAX = 1024, LINE_ROOM = 512 };

struct turn {
    char session[NAME_MAX_LEN];
    long id;
    int sent; /* chunks */
    int64_t due;
};

static const char *phrases[] = {"the function reads a line", "and splits it into words;", "it is called from the loop,",
                                "once for each message,", "and returns the first one"};
static struct turn turns[TURNS_MAX];
static int under_way, opened;
static int64_t pace;
static char out[CHUNKS * LINE_ROOM];
static size_t out_len;

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void flush_out(void) {
    for (size_t sent = 0; sent < out_len;) {
        ssize_t n = write(STDOUT_FILENO, out + sent, out_len - sent);
        if (n <= 0) exit(0); /* the client is gone */
        sent += (size_t)n;
    }
    out_len = 0;
}

static void answer(long id, const char *result) {
    out_len += (size_t)snprintf(out + out_len, LINE_ROOM, "{\"jsonrpc\":\"2.0\",\"id\":%ld,\"result\":%s}\n", id, result);
    flush_out();
}

static void add_chunk(const struct turn *t) {
    out_len += (size_t)snprintf(
        out + out_len, LINE_ROOM,
        "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"%s\",\"update\":{\"sessionUpdate\":"
        "\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"tok%02d @%lld %s \"}}}}\n",
        t->session, t->sent, (long long)now_ns(), phrases[t->sent % 5]);
}

/* Writes the chunks that are due. Returns 1 if the turn is complete. */
static int go_on(struct turn *t, int64_t now) {
    while (t->sent < CHUNKS && t->due <= now) {
        add_chunk(t);
        t->sent++;
        t->due += pace;
        if (pace) flush_out();
    }
    flush_out();
    if (t->sent < CHUNKS) return 0;
    answer(t->id, "{\"stopReason\":\"end_turn\"}");
    return 1;
}

static int64_t go_on_with_all(void) {
    int64_t now = now_ns(), next = INT64_MAX;
    for (int i = 0; i < under_way;) {
        if (go_on(&turns[i], now)) {
            turns[i] = turns[--under_way];
            continue;
        }
        if (turns[i].due < next) next = turns[i].due;
        i++;
    }
    return next;
}

/* ---- messages of the client ---- */

static int names(const char *line, const char *method) {
    const char *at = strstr(line, "\"method\":\"");
    return at && !strncmp(at + 10, method, strlen(method)) && at[10 + strlen(method)] == '"';
}

static void session_of(const char *line, char *name) {
    const char *at = strstr(line, "\"sessionId\":\"");
    name[0] = 0;
    if (at) sscanf(at + 13, "%31[^\"]", name);
}

static void cancel(const char *session) {
    for (int i = 0; i < under_way; i++) {
        if (strcmp(turns[i].session, session)) continue;
        answer(turns[i].id, "{\"stopReason\":\"cancelled\"}");
        turns[i] = turns[--under_way];
        return;
    }
}

static void handle_line(const char *line) {
    const char *at = strstr(line, "\"id\":");
    long id = at ? atol(at + 5) : 0;
    char text[128], session[NAME_MAX_LEN];
    session_of(line, session);
    if (names(line, "initialize")) {
        answer(id, "{\"protocolVersion\":1,\"agentCapabilities\":{\"loadSession\":true}}");
    } else if (names(line, "session/new")) {
        snprintf(text, sizeof text, "{\"sessionId\":\"b%d-%06d\"}", (int)getpid(), ++opened);
        answer(id, text);
    } else if (names(line, "session/prompt") && under_way < TURNS_MAX) {
        struct turn *t = &turns[under_way++];
        memcpy(t->session, session, sizeof session);
        t->id = id;
        t->sent = 0;
        t->due = now_ns() + pace;
    } else if (names(line, "session/cancel")) {
        cancel(session);
    } else if (at) {
        answer(id, "{}");
    }
}

/* Reads what is available and handles every complete line. */
static void listen_once(void) {
    static char *lines;
    static size_t len, cap;
    if (cap - len < 65536 + 1 && !(lines = realloc(lines, cap = len + 262144))) exit(1);
    ssize_t n = read(STDIN_FILENO, lines + len, 65536);
    if (n <= 0) exit(0);
    char *from = lines, *end;
    len += (size_t)n;
    while ((end = memchr(from, '\n', len - (size_t)(from - lines)))) {
        *end = 0;
        handle_line(from);
        from = end + 1;
    }
    len -= (size_t)(from - lines);
    memmove(lines, from, len);
}

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 1000UL); /* the default of 50 microseconds would affect every measurement */
    if (argc != 2) {
        fprintf(stderr, "usage: acp_agent PACE_US\n");
        return 2;
    }
    pace = atol(argv[1]) * 1000;
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    for (;;) {
        int64_t wait = 3600000000000LL, next = go_on_with_all();
        if (next != INT64_MAX) wait = next - now_ns();
        if (wait < 0) wait = 0;
        struct timespec timeout = {.tv_sec = wait / 1000000000, .tv_nsec = wait % 1000000000};
        if (ppoll(&in, 1, &timeout, NULL) > 0) listen_once();
    }
}
