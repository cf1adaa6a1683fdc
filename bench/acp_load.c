/* Reads turns of a coding agent, directly or through a gateway, and measures the age of every chunk on arrival.
 *
 * usage: acp_load --sessions N --seconds S --agent PROGRAM --pace US
 *        acp_load --sessions N --seconds S --port N --path P --body FILE [--headers FILE]
 *
 * All sessions start at the same time, and each starts its next turn when one is complete, until the time is over. Each
 * chunk contains the time it was written (acp_agent.c). A turn with missing, extra or misplaced chunks or without a
 * proper end is an error.
 */
#define _GNU_SOURCE
#include "answer.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNKS = 50, SESSIONS_MAX = 1024, READ_SIZE = 256 << 10, GRACE_S = 10 };

struct session {
    int fd, busy, chunks, wrong;
    size_t scanned;
    char session[32];
    struct answer answer;
};

static struct session all[SESSIONS_MAX];
static int count = 16, port, in_flight;
static double seconds;
static const char *path = "/", *agent, *pace = "0";
static char *request;
static size_t request_len;
static int to_agent, from_agent;
static uint32_t *ages;
static size_t age_count, age_cap;
static long turns, errors;
static char first_error[200];
static int64_t begin, deadline, last_end;

static void note_age(int64_t ns) {
    if (age_count == age_cap) {
        age_cap = age_cap ? age_cap * 2 : 65536;
        ages = realloc(ages, age_cap * sizeof *ages);
        if (!ages) die("realloc");
    }
    ages[age_count++] = ns > 0 ? (uint32_t)(ns / 1000) : 0;
}

/* Records the complete chunks in a text. Returns how many bytes need not be scanned again. */
static size_t scan(struct session *s, const char *text, size_t len, int64_t now) {
    size_t done = 0;
    while (len - done >= 8) {
        const char *p = memmem(text + done, len - done, "tok", 3);
        if (!p) return len - 2;
        size_t at = (size_t)(p - text);
        const char *end = len - at > 7 ? memchr(p + 7, ' ', len - at - 7) : NULL;
        if (!end) return at;
        done = at + 3;
        if (p[5] != ' ' || p[6] != '@') continue;
        if ((p[3] - '0') * 10 + (p[4] - '0') != s->chunks) s->wrong = 1;
        s->chunks++;
        note_age(now - atoll(p + 7));
    }
    return done;
}

static void send_all(int fd, const char *data, size_t len) {
    while (len) {
        ssize_t n = write(fd, data, len);
        if (n <= 0) die("write");
        data += n;
        len -= (size_t)n;
    }
}

static void finish(struct session *s, const char *problem) {
    if (!problem && s->wrong) problem = "chunks out of order";
    if (!problem && s->chunks != CHUNKS) problem = "chunks missing or too many";
    in_flight--;
    s->busy = 0;
    last_end = now_ns();
    if (!problem) turns++;
    else if (!errors++) snprintf(first_error, sizeof first_error, "%s (%d chunks)", problem, s->chunks);
}

static void start(struct session *s) {
    s->busy = 1;
    s->chunks = s->wrong = 0;
    s->scanned = 0;
    in_flight++;
}

/* ---- through a gateway ---- */

static int connected(void) {
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void post(struct session *s) {
    start(s);
    answer_reset(&s->answer);
    if (s->fd < 0) s->fd = connected();
    send_all(s->fd, request, request_len);
}

static void receive(struct session *s) {
    static char buffer[READ_SIZE];
    ssize_t n = read(s->fd, buffer, sizeof buffer);
    int64_t now = now_ns();
    const char *problem = NULL;
    if (n > 0 && s->busy) {
        struct answer *a = &s->answer;
        answer_feed(a, buffer, (size_t)n);
        s->scanned += scan(s, a->body + s->scanned, a->body_len - s->scanned, now);
        if (a->phase < DONE) return;
        problem = answer_fault(a, 1, CHUNKS);
    } else {
        problem = "connection closed";
    }
    if (problem || s->answer.close_after) {
        close(s->fd);
        s->fd = -1;
    }
    if (s->busy) finish(s, problem);
    if (now < deadline) post(s);
}

static void run_http(void) {
    struct pollfd polled[SESSIONS_MAX];
    for (int i = 0; i < count; i++) {
        all[i].fd = connected();
        post(&all[i]);
    }
    while (in_flight && now_ns() < deadline + GRACE_S * 1000000000LL) {
        for (int i = 0; i < count; i++) polled[i] = (struct pollfd){.fd = all[i].fd, .events = POLLIN};
        poll(polled, (nfds_t)count, 50);
        for (int i = 0; i < count; i++) {
            if (polled[i].revents) receive(&all[i]);
        }
    }
}

/* ---- directly ---- */

static void say(const char *line) { send_all(to_agent, line, strlen(line)); }

static void prompt(int index) {
    char line[400];
    start(&all[index]);
    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"session/prompt\",\"params\":{\"sessionId\":\"%s\",\"prompt\":"
             "[{\"type\":\"text\",\"text\":\"What does this function do, and where is it called from?\"}]}}\n",
             index, all[index].session);
    say(line);
}

static struct session *session_of(const char *line) {
    const char *at = strstr(line, "\"sessionId\":\"");
    for (int i = 0; at && i < count; i++) {
        size_t len = strlen(all[i].session);
        if (len && !strncmp(at + 13, all[i].session, len)) return &all[i];
    }
    return NULL;
}

/* Handles one line of the agent: a chunk, an opened session, or the end of a turn. */
static void handle_line(const char *line, size_t len, int64_t now) {
    const char *id = strstr(line, "\"id\":"), *name = strstr(line, "\"sessionId\":\"");
    if (!id) {
        struct session *s = session_of(line);
        if (s) scan(s, line, len, now);
        return;
    }
    int index = atoi(id + 5);
    if (index < 0 || index >= count) return;
    if (name) {
        sscanf(name + 13, "%31[^\"]", all[index].session);
        prompt(index);
        return;
    }
    finish(&all[index], strstr(line, "end_turn") ? NULL : "not ended by the agent");
    if (now < deadline) prompt(index);
}

static void start_agent(void) {
    int in[2], out[2];
    if (pipe(in) || pipe(out)) die("pipe");
    pid_t pid = fork();
    if (pid < 0) die("fork");
    if (!pid) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(agent, agent, pace, (char *)NULL);
        die(agent);
    }
    close(in[0]);
    close(out[1]);
    to_agent = in[1];
    from_agent = out[0];
}

static void run_direct(void) {
    static char lines[READ_SIZE * 2];
    size_t len = 0;
    start_agent();
    say("{\"jsonrpc\":\"2.0\",\"id\":-1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n");
    for (int i = 0; i < count; i++) {
        char line[160];
        snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"session/new\",\"params\":{}}\n", i);
        say(line);
    }
    for (int began = 0; !began || in_flight;) {
        ssize_t n = read(from_agent, lines + len, sizeof lines - len - 1);
        int64_t now = now_ns();
        if (n <= 0 || now > deadline + GRACE_S * 1000000000LL) break;
        char *from = lines, *end;
        len += (size_t)n;
        while ((end = memchr(from, '\n', len - (size_t)(from - lines)))) {
            *end = 0;
            handle_line(from, (size_t)(end - from), now);
            from = end + 1;
            began |= in_flight > 0;
        }
        len -= (size_t)(from - lines);
        memmove(lines, from, len);
    }
}

/* ---- arguments and the result ---- */

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

static void build_request(const char *body_file, const char *header_file) {
    size_t body_len, header_len = 0;
    char *body = read_file(body_file, &body_len), *headers = header_file ? read_file(header_file, &header_len) : "";
    request = malloc(strlen(path) + header_len * 2 + body_len + 256);
    if (!request) die("malloc");
    char *p = request + sprintf(request, "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
                                         "Content-Length: %zu\r\n", path, port, body_len);
    for (size_t i = 0; i < header_len; i++) { /* one header per line in the file */
        if (headers[i] == '\n') *p++ = '\r';
        *p++ = headers[i];
    }
    p += sprintf(p, "\r\n");
    memcpy(p, body, body_len);
    request_len = (size_t)(p - request) + body_len;
}

static void parse_args(int argc, char **argv) {
    const char *body_file = NULL, *header_file = NULL;
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (!strcmp(name, "--sessions")) count = atoi(value);
        else if (!strcmp(name, "--seconds")) seconds = atof(value);
        else if (!strcmp(name, "--agent")) agent = value;
        else if (!strcmp(name, "--pace")) pace = value;
        else if (!strcmp(name, "--port")) port = atoi(value);
        else if (!strcmp(name, "--path")) path = value;
        else if (!strcmp(name, "--body")) body_file = value;
        else if (!strcmp(name, "--headers")) header_file = value;
        else argc = 0;
    }
    if (argc % 2 == 0 || count < 1 || count > SESSIONS_MAX || seconds <= 0 || (!agent && !(port && body_file))) {
        fprintf(stderr, "usage: acp_load --sessions N --seconds S (--agent PROGRAM --pace US |\n"
                        "                --port N --path P --body FILE [--headers FILE])\n");
        exit(2);
    }
    if (!agent) build_request(body_file, header_file);
}

static int by_value(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signal(SIGPIPE, SIG_IGN);
    parse_args(argc, argv);
    begin = last_end = now_ns();
    deadline = begin + (int64_t)(seconds * 1e9);
    if (agent) run_direct();
    else run_http();
    for (int i = 0; i < count; i++) {
        if (all[i].busy) finish(&all[i], "not finished in time");
    }
    double took = (double)(last_end - begin) / 1e9;
    if (age_count) qsort(ages, age_count, sizeof *ages, by_value);
    printf("{\"turns\":%ld,\"errors\":%ld,\"chunks\":%zu,\"turns_per_s\":%.2f,\"age_p50_us\":%u,\"age_p99_us\":%u,"
           "\"age_max_us\":%u,\"first_error\":\"%s\"}\n", turns, errors, age_count, took > 0 ? (double)turns / took : 0.0,
           age_count ? ages[age_count / 2] : 0, age_count ? ages[age_count * 99 / 100] : 0,
           age_count ? ages[age_count - 1] : 0, first_error);
    return 0;
}
