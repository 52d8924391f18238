/* Two ends of one connection in one process: an SDU by copy, an SDU in place, and what is refused.
 *
 *     cc crossing.c -lcellgate && ./a.out a.0.100 b.0.100
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include <cellgate.h>

#define CONTRACT "cbr,aal5:pcr=20000,max_sdu=1000"

static int failed(const char *what, int code) {
    char said[400];
    cg_last_error(said, sizeof said);
    fprintf(stderr, "%s: %s (%s)\n", what, cg_error_string(code), said);
    return 1;
}

int main(int argc, char **argv) {
    cg_connection *a, *b, *none;
    struct cg_received received;
    struct cg_sdu low = {.uu = 7, .clp = 1};
    struct cg_counters sent, got;
    char buffer[1000], said[400];
    void *space;
    const void *octets;
    uint32_t pdu;
    int code;

    if (argc != 3) return 2;
    code = cg_open(&none, NULL, argv[1], "cbr,aal5:pcr=2000000");
    cg_last_error(said, sizeof said);
    printf("%s: %s\n", cg_error_string(code), said);
    if ((code = cg_open(&a, NULL, argv[1], CONTRACT))) return failed("open", code);
    if ((code = cg_open(&b, NULL, argv[2], CONTRACT))) return failed("open", code);

    if ((code = cg_send(a, "copied", 6, &low, -1))) return failed("send", code);
    if ((code = cg_recv(b, buffer, sizeof buffer, &received, 60000))) return failed("recv", code);
    printf("%.*s, uu %d, clp %d\n", (int)received.len, buffer, received.uu, received.clp);

    if ((code = cg_reserve(a, 8, &space, -1))) return failed("reserve", code);
    memcpy(space, "in place", 8);
    if ((code = cg_submit(a, NULL))) return failed("submit", code);
    while ((code = cg_next(b, &pdu, &octets, &received, 0)) == CG_WOULD_BLOCK) {
        struct pollfd ready = {.fd = cg_fd(b), .events = POLLIN};
        if ((code = cg_arm(b, CG_RECEIVE, 0)) < 0) return failed("arm", code);
        if (code == 1) poll(&ready, 1, 60000);
    }
    if (code) return failed("next", code);
    printf("%.*s, %zu octets\n", (int)received.sdu_len, (const char *)octets, received.sdu_len);
    if ((code = cg_release(b, pdu))) return failed("release", code);

    printf("again: %s\n", cg_error_string(cg_release(b, pdu)));
    printf("submit: %s\n", cg_error_string(cg_submit(a, NULL)));
    printf("too long: %s\n", cg_error_string(cg_send(a, buffer, 1001, NULL, 0)));

    cg_counters(a, &sent);
    cg_counters(b, &got);
    printf("copies: %d of %d, %d of %d\n", (int)sent.send_copies, (int)sent.sent,
           (int)got.receive_copies, (int)got.received);
    if ((code = cg_close(a, 1000)) || (code = cg_close(b, 0))) return failed("close", code);
    return 0;
}
