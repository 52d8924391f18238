/* What admission says when there is not enough, an offer that is taken later, a stream that is
 * released by time, and the adapter's counters.
 *
 *     cc offers.c -lcellgate && ./a.out a.0.100 b.0.100 a.0.101
 */
#include <poll.h>
#include <stdio.h>

#include <cellgate.h>

static int failed(const char *what, int code) {
    char said[400];
    cg_last_error(said, sizeof said);
    fprintf(stderr, "%s: %s (%s)\n", what, cg_error_string(code), said);
    return 1;
}

int main(int argc, char **argv) {
    cg_connection *a, *b, *other;
    struct cg_open how = {.size = sizeof how, .contract = "cbr,aal5:pcr=5000000"};
    struct cg_shortage shortage;
    struct cg_indication told;
    struct cg_stream stream;
    struct cg_stats stats;
    char text[400];
    int code, i;

    if (argc != 4) return 2;
    how.address = argv[1];
    code = cg_open_with(&a, &how);
    if (code != CG_REFUSED) return failed("open", code);
    if ((code = cg_shortage(&shortage, text, sizeof text)) < 0) return failed("shortage", code);
    if (shortage.resource == CG_TRANSMIT_BANDWIDTH)
        printf("%d cells/s needed, %d free\n", (int)shortage.needed, (int)shortage.free);
    printf("it would take %s\n", text);
    how.contract = "cbr,aal5:pcr=1000,max_sdu=1000";
    if ((code = cg_open_with(&a, &how))) return failed("open", code);

    /* Another has most of it: what is refused now the server offers when there is room. */
    how.address = argv[3];
    how.contract = "cbr,aal5:pcr=950000";
    if ((code = cg_open_with(&other, &how))) return failed("open", code);
    code = cg_set_contract(a, "cbr,aal5:pcr=100000,max_sdu=2000");
    if (code != CG_REFUSED) return failed("set_contract", code);
    if ((code = cg_close(other, 0))) return failed("close", code);
    code = cg_indication(a, &told, text, sizeof text, 60000);
    if (code < 0) return failed("indication", code);
    if (told.kind == CG_TOLD_CAN_GROW) printf("it can grow to %s\n", text);
    if ((code = cg_accept_offer(a))) return failed("accept_offer", code);
    if ((code = cg_contract(a, text, sizeof text)) < 0) return failed("contract", code);
    printf("it is %s\n", text);

    how.address = argv[2];
    how.contract = text;
    how.receive_pdus = 64;
    if ((code = cg_open_with(&b, &how))) return failed("open", code);
    if ((code = cg_stream_open(b, 3600000000000, 64))) return failed("stream_open", code);
    for (i = 0; i < 3; i++) {
        if ((code = cg_send(a, &"uvw"[i], 1, NULL, -1))) return failed("send", code);
        if ((code = cg_stream_read(b, text, sizeof text, 60000)) < 0) return failed("read", code);
        printf("%.*s ", code, text);
    }
    if ((code = cg_stream_read_at(b, 1, text, sizeof text)) < 0) return failed("read_at", code);
    if ((i = cg_stream_state(b, &stream))) return failed("state", i);
    printf("and again %.*s of %d\n", code, text, (int)stream.end);
    if ((code = cg_stream_close(b))) return failed("stream_close", code);

    if ((code = cg_flush(a, 60000))) return failed("flush", code);
    /* They are as of the server's last report. */
    while (!(code = cg_stats(a, &stats)) && stats.pdus_transmitted < 3) poll(NULL, 0, 10);
    if (code) return failed("stats", code);
    printf("the adapter has sent %d PDUs\n", (int)stats.pdus_transmitted);
    if ((code = cg_stats(b, &stats))) return failed("stats", code);
    for (i = 0; cg_discard_name(i); i++)
        if (stats.pdus_discarded[i]) printf("discarded: %s\n", cg_discard_name(i));
    if ((code = cg_close(a, 1000)) || (code = cg_close(b, 0))) return failed("close", code);
    return 0;
}
