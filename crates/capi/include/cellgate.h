/* The C API of cellgate: connections with guaranteed rates. Manual pages: cellgate(3).
 *
 * A connection is used by one thread at a time; it may move between threads. Different connections
 * are independent. No call installs a handler, starts a thread, or is interrupted by a signal.
 *
 * Calls return 0 (CG_OK) or more if they did what they are for, else one of the negative codes
 * below; cg_error_string() names a code, cg_last_error() tells what was said to this thread, such
 * as the contract that admission would have taken.
 *
 * A timeout is in milliseconds: 0 does not wait, negative waits for ever. */
#ifndef CELLGATE_H
#define CELLGATE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    CG_OK = 0,
    CG_NO_SERVER = -1,        /* nobody answers at the control socket */
    CG_REFUSED = -2,          /* the server or its admission said no */
    CG_ADDRESS = -3,          /* the text is no address */
    CG_ENDED = -4,            /* the connection has ended */
    CG_CLOSED = -5,           /* the server has hung up */
    CG_WOULD_BLOCK = -6,      /* not at once */
    CG_TIMED_OUT = -7,        /* not in the time given */
    CG_TOO_LONG = -8,         /* the SDU is longer than the contract allows */
    CG_EMPTY = -9,            /* an SDU of 0 octets cannot be sent */
    CG_WRONG_DIRECTION = -10, /* the contract has no such direction */
    CG_SPACE_BORROWED = -11,  /* another space is borrowed */
    CG_SPACE_LOST = -12,      /* the connection got new memory meanwhile */
    CG_NO_SPACE = -13,        /* no space is borrowed */
    CG_NOT_HELD = -14,        /* no PDU of this number is held */
    CG_TOO_MANY_HELD = -15,   /* CG_HELD_MAX PDUs are held */
    CG_BAD_ARGUMENT = -16,    /* NULL, or a text that is not UTF-8 */
    CG_KERNEL = -17,          /* the kernel said no */
    CG_BAD_MESSAGE = -18,     /* what came from the server makes no sense */
    CG_PANIC = -19            /* a bug in this library; the connection is not to be used again */
};

/* PDUs that a connection can hold at once. */
enum { CG_HELD_MAX = 1024 };

/* What to wait for. */
enum {
    CG_INDICATION = 0, /* only what the server tells of its own accord */
    CG_RECEIVE = 1,    /* a PDU to receive */
    CG_SEND = 2,       /* credit and room to send */
    CG_SENT = 4        /* that everything handed over was sent */
};

typedef struct cg_connection cg_connection;

/* What goes along with an SDU. NULL in its place: all 0. */
struct cg_sdu {
    uint16_t mid; /* AAL3/4: multiplexing identification */
    uint8_t uu;   /* AAL5: user-to-user octet */
    uint8_t cpi;  /* AAL5: common part indicator */
    uint8_t clp;  /* 1: low priority */
};

/* What came along with an SDU. */
struct cg_received {
    size_t len;         /* octets in the caller's hands */
    size_t sdu_len;     /* octets of the SDU; what the buffer had no room for is gone */
    uint64_t time_ns;   /* when its last cell was handled, CLOCK_MONOTONIC */
    uint16_t mid;
    uint8_t uu;
    uint8_t cpi;
    uint8_t clp;
    uint8_t congestion; /* 1: its last cell met congestion */
    uint8_t lent;       /* 1: delivered beyond the contract */
};

struct cg_counters {
    uint64_t sent;           /* SDUs handed to the adapter */
    uint64_t send_copies;    /* of these, copied by cg_send */
    uint64_t suspended;      /* times that a writer waited for credit */
    uint64_t received;       /* PDUs handed to the caller */
    uint64_t receive_copies; /* of these, copied by cg_recv */
    uint64_t dismissed;      /* PDUs beyond credit and tolerance */
};

/* cg_open(3). socket may be NULL: $CELLGATE_SOCKET, else /run/cellgate/control.sock, else, where that
 * is not there, $XDG_RUNTIME_DIR/cellgate/control.sock. */
int cg_open(cg_connection **connection, const char *socket, const char *address,
            const char *contract);
int cg_take(cg_connection **connection, const char *socket, const char *address);
int cg_set_contract(cg_connection *connection, const char *contract);
int cg_contract(const cg_connection *connection, char *text, size_t size);
int cg_close(cg_connection *connection, int linger_ms);

/* cg_send(3): one copy each. */
int cg_send(cg_connection *connection, const void *sdu, size_t len, const struct cg_sdu *with,
            int timeout_ms);
int cg_recv(cg_connection *connection, void *buffer, size_t size, struct cg_received *received,
            int timeout_ms);
int cg_flush(cg_connection *connection, int timeout_ms);

/* cg_reserve(3): no copy. */
int cg_reserve(cg_connection *connection, size_t len, void **octets, int timeout_ms);
int cg_submit(cg_connection *connection, const struct cg_sdu *with);
int cg_abandon(cg_connection *connection);
int cg_next(cg_connection *connection, uint32_t *pdu, const void **octets,
            struct cg_received *received, int timeout_ms);
int cg_release(cg_connection *connection, uint32_t pdu);

/* cg_fd(3): waiting elsewhere. */
int cg_fd(const cg_connection *connection);
int cg_arm(cg_connection *connection, int interest, size_t len);
int cg_disarm(cg_connection *connection);

/* cg_error(3) */
int cg_counters(const cg_connection *connection, struct cg_counters *counters);
const char *cg_error_string(int code);
size_t cg_last_error(char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif
