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
    CG_PANIC = -19,           /* a bug in this library; the connection is not to be used again */
    CG_LATE = -20,            /* PDUs of the stream were released before they were read */
    CG_NO_STREAM = -21,       /* no stream is open */
    CG_NO_SHORTAGE = -22,     /* the last error was no shortage that admission found */
    CG_NOT_A_CELL = -23,      /* an SDU of AAL0 is a cell of 52 octets */
    CG_PDUS_HELD = -24,       /* PDUs are held: release them first */
    CG_NOT_FIXED = -25       /* the contract commits to another size */
};

/* PDUs that a connection can hold at once, itself and its stream. */
enum { CG_HELD_MAX = 1024, CG_STREAM_MAX = 65536 };

/* What to wait for. */
enum {
    CG_INDICATION = 0, /* only what the server tells of its own accord */
    CG_RECEIVE = 1,    /* a PDU to receive */
    CG_SEND = 2,       /* credit and room to send */
    CG_SENT = 4,       /* that everything handed over was sent */
    CG_EVENT = 8       /* an event of the adapter */
};

/* When events tell of received cells. */
enum {
    CG_NOTIFY_USUAL = 0, /* at the last cell of a PDU */
    CG_NOTIFY_EVERY_CELL = 1,
    CG_NOTIFY_FIRST_CELL = 2,
    CG_NOTIFY_LAST_CELL = 3,
    CG_NOTIFY_FIRST_AND_LAST_CELL = 4,
    CG_NOTIFY_SILENT = 5, /* at the last cell, without an interrupt for each */
    CG_NOTIFY_POLLED = 6  /* never */
};

/* What the server tells of its own accord. */
enum {
    CG_TOLD_OTHER = 0,
    CG_TOLD_ENDED = 1,    /* the connection has ended, for a reason */
    CG_TOLD_REOPENED = 2, /* after a restart of the adapter, with new memory; text: the contract */
    CG_TOLD_SHARE = 3,    /* the pace of best effort */
    CG_TOLD_AT_RISK = 4,  /* the guarantee cannot be kept for the time being; text: why */
    CG_TOLD_CAN_GROW = 5, /* there is room for more; text: the contract that is offered */
    CG_TOLD_RESTARTED = 6, /* the server is a new one; connections go on */
    CG_TOLD_LOSING = 7,   /* PDUs were thrown away, for a reason; text: its name */
    CG_TOLD_RATE = 8      /* the network allows abr another rate; text: why */
};

/* What the adapter tells. */
enum {
    CG_EVENT_TRANSMIT_COMPLETED = 1, /* an SDU has left; value: tail of the transmit queue */
    CG_EVENT_PDU_RECEIVED = 3,       /* cells of a PDU; value: head of the receive queue */
    CG_EVENT_QUEUE_FULL = 4,         /* no room for a PDU; value: PDUs in the receive queue */
    CG_EVENT_QUEUE_OVER_THRESHOLD = 5 /* value: PDUs in the receive queue */
};

/* Why a connection has ended. */
enum {
    CG_END_DELETED = 1,
    CG_END_INTERFACE_REMOVED = 2,
    CG_END_TAKEN_OVER = 3,    /* by cg_reattach */
    CG_END_NOT_REOPENED = 4,  /* it could not go on after a restart */
    CG_END_SHUTTING_DOWN = 5, /* the server ends */
    CG_END_PAGES_TAKEN = 6,   /* pages of its memory were taken away */
    CG_END_BUFFER_GONE = 7    /* what it received into has ended */
};

/* What admission hands out, and its unit. */
enum {
    CG_TRANSMIT_BANDWIDTH = 1, /* cells/s */
    CG_RECEIVE_BANDWIDTH = 2,  /* cells/s */
    CG_ADAPTER_CPU = 3,        /* millionths of a core */
    CG_WORKER_CPU = 4,         /* millionths of a core */
    CG_MEMORY = 5,             /* octets */
    CG_CONNECTIONS = 6         /* connections */
};

/* Why the adapter discards. */
enum {
    CG_DISCARD_UNKNOWN_VC = 0,
    CG_DISCARD_HEC_ERROR = 1,
    CG_DISCARD_IDLE = 2,
    CG_DISCARD_NOT_USER_DATA = 3,
    CG_DISCARD_NON_CONFORMING = 4, /* earlier than the contract allows */
    CG_DISCARD_BUFFER_FULL = 5,    /* of the receiver, who does not release in time */
    CG_DISCARD_QUEUE_FULL = 6,
    CG_DISCARD_OVERSIZED = 7,
    CG_DISCARD_CRC_ERROR = 8,
    CG_DISCARD_LENGTH_ERROR = 9,
    CG_DISCARD_ABORTED = 10,
    CG_DISCARD_CLOSED = 11,
    CG_DISCARD_LOST_CELL = 12,
    CG_DISCARD_TAG_MISMATCH = 13,
    CG_DISCARD_TOO_MANY_MIDS = 14,
    CG_DISCARD_REASSEMBLY_TIMEOUT = 15,
    CG_DISCARD_OVERLOAD = 16,
    CG_DISCARDS_MAX = 32 /* more than there are */
};

typedef struct cg_connection cg_connection;

/* How to open. What is 0 is as with cg_open. */
struct cg_open {
    size_t size;               /* sizeof(struct cg_open) */
    const char *socket;        /* as cg_open's */
    const char *address;       /* never NULL */
    const char *contract;      /* NULL: ubr,aal5 */
    uint64_t patience_ns;      /* that a request to the server may take; 0: 30 s */
    uint64_t silent_delay_ns;  /* CG_NOTIFY_SILENT: an interrupt after so long, */
    uint32_t silent_threshold; /* or so many events */
    int notification;          /* CG_NOTIFY_USUAL, ... */
    uint32_t transmit_pdus;    /* SDUs that may wait to be sent; 0: those of a credit interval */
    uint32_t receive_pdus;     /* PDUs that may wait beyond those that the contract needs */
    int no_completions;        /* 1: a sender that waits for room looks every millisecond */
    int connected;             /* a socket that is connected already; 0: none */
    uint32_t queue_threshold;  /* PDUs in the receive queue at which an event tells; 0: none */
    uint32_t events;           /* events that are kept for cg_event; 0: none */
};

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

/* What the server told; what the kind does not have is 0. */
struct cg_indication {
    uint32_t transmit_cell_s; /* CG_TOLD_SHARE, CG_TOLD_RATE: what it may send, */
    uint32_t receive_cell_s;  /* and receive, */
    uint64_t credit_octets;   /* and send in each */
    uint64_t interval_ns;     /* credit interval */
    uint64_t pdus;            /* CG_TOLD_LOSING: thrown away for the reason so far */
    int kind;                 /* CG_TOLD_ENDED, ... */
    int reason;               /* CG_END_DELETED, ...; CG_DISCARD_NON_CONFORMING, ... */
};

/* An event of the adapter. */
struct cg_event {
    uint64_t value;   /* as the kind says */
    uint64_t time_ns; /* when it was told, CLOCK_MONOTONIC */
    uint32_t cells;   /* of the PDU so far */
    int kind;         /* CG_EVENT_PDU_RECEIVED, ... */
    int interruptive; /* 1: it wakes who waits */
    int reserved;     /* 0 */
};

/* What can be read of a stream. PDUs are numbered from 0. */
struct cg_stream {
    uint64_t oldest;          /* number of the oldest PDU that can be read */
    uint64_t end;             /* number of the next PDU to arrive */
    uint64_t released_unread; /* PDUs */
};

/* What there was not enough of. */
struct cg_shortage {
    uint64_t needed; /* in the resource's unit */
    uint64_t free;
    int64_t quota;   /* the user whose quota is the bound; -1: the machine is */
    int resource;    /* CG_TRANSMIT_BANDWIDTH, ... */
};

struct cg_counters {
    uint64_t sent;           /* SDUs handed to the adapter */
    uint64_t send_copies;    /* of these, copied by cg_send */
    uint64_t suspended;      /* times that a writer waited for credit */
    uint64_t received;       /* PDUs handed to the caller */
    uint64_t receive_copies; /* by cg_recv, and each cg_stream_read */
    uint64_t dismissed;      /* PDUs beyond credit and tolerance */
    uint64_t events_lost;    /* they found no room */
};

/* What the adapter counted. */
struct cg_stats {
    uint64_t cells_received;
    uint64_t cells_delivered;
    uint64_t cells_delivered_clp1;   /* of these, with low priority (CLP 1) */
    uint64_t cells_held;       /* of PDUs in progress */
    uint64_t cells_answered;   /* OAM loopback */
    uint64_t cells_transmitted;
    uint64_t cells_transmitted_clp1; /* of these, with low priority (CLP 1) */
    uint64_t pdus_delivered;
    uint64_t pdus_lent;        /* of these, on a lease beyond the contract */
    uint64_t pdus_tagged;      /* of these, with low priority for being beyond the contract */
    uint64_t pdus_transmitted;
    uint64_t pdus_crossed;     /* of these, to a program of this machine as a whole */
    uint64_t client_faults;    /* descriptors that named no SDU */
    uint64_t cells_discarded[CG_DISCARDS_MAX]; /* by reason: CG_DISCARD_UNKNOWN_VC, ... */
    uint64_t pdus_discarded[CG_DISCARDS_MAX];
};

/* cg_open(3). socket may be NULL: $CELLGATE_SOCKET, else the first of these that is there:
 * /run/cellgate/control.sock, $XDG_RUNTIME_DIR/cellgate/control.sock, and in the temporary directory
 * cellgate-UID/control.sock if that directory is the caller's own. */
int cg_open(cg_connection **connection, const char *socket, const char *address,
            const char *contract);
int cg_take(cg_connection **connection, const char *socket, const char *address);
int cg_set_contract(cg_connection *connection, const char *contract);
int cg_contract(const cg_connection *connection, char *text, size_t size);
int cg_max_sdu(const cg_connection *connection, int direction);
int cg_lease(cg_connection *connection, uint32_t pdus, uint64_t expires_in_ns);
int cg_close(cg_connection *connection, int linger_ms);

/* cg_open_with(3) */
int cg_open_with(cg_connection **connection, const struct cg_open *how);
int cg_take_with(cg_connection **connection, const struct cg_open *how);
int cg_reattach(cg_connection **connection, const struct cg_open *how, int capability);
int cg_capability(const cg_connection *connection);

/* cg_send(3): one copy each. */
int cg_send(cg_connection *connection, const void *sdu, size_t len, const struct cg_sdu *with,
            int timeout_ms);
int cg_recv(cg_connection *connection, void *buffer, size_t size, struct cg_received *received,
            int timeout_ms);
int cg_flush(cg_connection *connection, int timeout_ms);

/* cg_reserve(3): no copy. */
int cg_reserve(cg_connection *connection, size_t len, void **octets, int timeout_ms);
int cg_truncate(cg_connection *connection, size_t len);
int cg_submit(cg_connection *connection, const struct cg_sdu *with);
int cg_abandon(cg_connection *connection);
int cg_next(cg_connection *connection, uint32_t *pdu, const void **octets,
            struct cg_received *received, int timeout_ms);
int cg_release(cg_connection *connection, uint32_t pdu);

/* cg_fd(3): waiting elsewhere. */
int cg_fd(const cg_connection *connection);
int cg_arm(cg_connection *connection, int interest, size_t len);
int cg_disarm(cg_connection *connection);

/* cg_stream(3): released by time. */
int cg_stream_open(cg_connection *connection, uint64_t hold_ns, size_t held_max);
int cg_stream_read(cg_connection *connection, void *buffer, size_t size, int timeout_ms);
int cg_stream_read_at(cg_connection *connection, uint64_t number, void *buffer, size_t size);
int cg_stream_state(const cg_connection *connection, struct cg_stream *state);
int cg_stream_close(cg_connection *connection);

/* cg_indication(3) */
int cg_indication(cg_connection *connection, struct cg_indication *indication, char *text,
                  size_t size, int timeout_ms);
int cg_accept_offer(cg_connection *connection);
int cg_decline_offer(cg_connection *connection);

/* cg_event(3) */
int cg_event(cg_connection *connection, struct cg_event *event, int timeout_ms);

/* cg_stats(3) */
int cg_counters(const cg_connection *connection, struct cg_counters *counters);
int cg_stats(cg_connection *connection, struct cg_stats *stats);
const char *cg_discard_name(int reason);

/* cg_error(3) */
const char *cg_error_string(int code);
size_t cg_last_error(char *text, size_t size);
int cg_shortage(struct cg_shortage *shortage, char *offer, size_t size);

#ifdef __cplusplus
}
#endif

#endif
