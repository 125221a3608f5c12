/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire's messages as plain structs, and their codec over protobuf-c. The decoder checks sizes,
 * counts, parents, ids and numbers before it allocates memory from them; a decoded message is safe
 * to use. docs/PROTOCOL.md explains the fields. Functions are pure; any thread.
 */
#ifndef FT_WIRE_MESSAGES_H
#define FT_WIRE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/constraint.h"
#include "base/penalties.h"
#include "base/sink.h"
#include "base/status.h"

#define FT_PROTOCOL       1
#define FT_SESSION_ID_LEN 16
#define FT_WIRE_TREE_MAX  256 /* nodes of a Draft; equals spec's FT_TREE_MAX */
#define FT_WIRE_TOP_MAX   FT_TOP_LOGPROBS_MAX
#define FT_WIRE_PATH_MAX  FT_WIRE_TREE_MAX
#define FT_WIRE_NEXT_MAX  (FT_WIRE_TREE_MAX + 1) /* tokens of path and next of a Verdict together */
#define FT_WIRE_RUN_MAX   1024                   /* tokens of one run */
#define FT_WIRE_RULES_MAX 16                     /* rules that a server offers */
#define FT_WIRE_JOINT_MAX 65536                  /* drafts of a batch */
/* Bytes of evidence in one Draft, whatever the rules ask for. */
#define FT_WIRE_EVIDENCE_MAX (256 * 1024)
/* The largest ServerMessage that a decoder takes; the largest legal Verdict is about 70 KB. */
#define FT_SERVER_MSG_MAX_BYTES (128 * 1024)

typedef struct ft_session_id {
    uint8_t bytes[FT_SESSION_ID_LEN];
} ft_session_id;

typedef struct ft_msg_sampling {
    float temperature, top_p, min_p;
    uint32_t top_k;
    uint64_t seed;
} ft_msg_sampling;

typedef struct ft_msg_open {
    uint32_t protocol;
    uint64_t vocab_fingerprint;
    char model[128];
    ft_msg_sampling sampling;
    float slo_tokens_per_s;
    uint32_t rule; /* its id; the wire does not know which ids exist */
    uint32_t n_prompt;
    const int32_t *prompt; /* [n_prompt]; decoded: inside the message's own memory */
    bool resume;           /* then session, secret and base are set and the prompt is empty */
    ft_session_id session, secret;
    uint32_t base;
    uint32_t max_tokens;
    bool logprobs;
    uint32_t top_logprobs;
    uint64_t target; /* the only one that may make the text (ft_msg_opened.target); 0: any */
    bool no_drafts;  /* the server drafts nothing for this text by itself; an older one may */
    bool has_nonce;
    ft_session_id nonce;    /* of the text; if it is opened twice at a server, it has one session */
    ft_penalties penalties; /* where Limits offers them */
    ft_constraint constraint; /* where Limits offers it; decoded: in the message's own memory */
    /* The last tokens of `prompt` that are the answer's, for penalties and constraint. */
    uint32_t n_answer;
} ft_msg_open;

typedef struct ft_msg_draft {
    uint32_t round, base;
    uint32_t n;   /* nodes; 0: asks for a run */
    uint32_t run; /* without nodes: tokens of the run, 0 means 1; with nodes: 0 */
    int32_t token[FT_WIRE_TREE_MAX];
    int32_t parent[FT_WIRE_TREE_MAX]; /* -1: the text's end; else < own index */
    uint32_t draft_us, rtt_us;
    uint32_t n_evidence;     /* bytes; 0 without nodes and in an early draft */
    const uint8_t *evidence; /* decoded: inside the message's own memory; 0 bytes: NULL */
    /* Above 0: an *early* draft, sent before the verdict on the round before. It extends that
     * round's tree, has that round's `base`, and has nodes. The i-th node with parent -1 is a child
     * of that tree's node under[i]. */
    uint32_t n_under;
    uint8_t under[FT_WIRE_TREE_MAX];
    /* So many drafts left the edge together, to be verified in one pass; 0: this one left alone. */
    uint32_t together;
    uint32_t batch; /* of a tenant's batches the one that this draft is in */
} ft_msg_draft;

typedef struct ft_msg_limits {
    uint32_t max_tree, max_context, session_ttl_s, max_top_logprobs;
    bool early_drafts;                 /* the server supports them */
    uint32_t n_rules;                  /* 0: only the rule with id 0 */
    uint32_t rules[FT_WIRE_RULES_MAX]; /* ids of the rules that Open may name */
    uint32_t max_evidence_bytes;       /* of a Draft */
    bool penalties;                    /* it applies Open.penalties */
    bool constraints;                  /* it takes Open.constraint */
} ft_msg_limits;

/* Advice for the next draft. All-zero: none. */
typedef struct ft_msg_hints {
    uint32_t row_price; /* what a node costs other texts, in 1/1000 token; 0: no hint */
    uint32_t token_us;  /* time of a token of a run for this session now; 0: not known */
    bool no_trees;      /* trees are not verified: ask for runs */
} ft_msg_hints;

typedef struct ft_msg_opened {
    ft_session_id session, secret;
    uint32_t cached_tokens, length, last_round;
    ft_msg_limits limits;
    char model[128];
    uint64_t target;    /* engine/target.h; 0: an older server, which does not say */
    uint32_t queue_us;  /* how long Open waited for the engine; 0: the same */
    ft_msg_hints hints; /* for the first draft */
} ft_msg_opened;

typedef enum ft_finish { FT_FINISH_NONE, FT_FINISH_STOP, FT_FINISH_LENGTH } ft_finish;

typedef struct ft_msg_verdict {
    uint32_t round;
    uint32_t n_path;
    uint32_t path[FT_WIRE_PATH_MAX]; /* rising node numbers, each below FT_WIRE_TREE_MAX */
    uint32_t n_next;                 /* 0: the text finished inside the path */
    int32_t next[FT_WIRE_NEXT_MAX];  /* tokens after the path */
    bool more;                       /* in a run: another verdict of this round follows */
    uint32_t length;
    uint32_t n_logprobs;        /* 0, or n_path + n_next */
    ft_token_logprob *logprobs; /* [n_logprobs]; decoded: inside the message's own memory */
    uint32_t queue_us, verify_us;
    uint32_t
        others_us; /* others kept the engine busy so long after the last verdict; 0: not known */
    ft_finish finish;
    bool early_taken; /* the next round has begun, with the part of the early draft that follows */
    ft_msg_hints hints;
    uint32_t together; /* drafts of this draft's batch in the pass; 0: it was sent alone */
    uint32_t read_tok; /* tokens of the text that were read into KV since the last verdict */
    uint32_t read_us;  /* and their share of the passes that read them, by rows */
} ft_msg_verdict;

typedef struct ft_msg_info {
    uint32_t protocol;
    char version[32];
    char model[128];
    uint64_t vocab_fingerprint;
    ft_msg_limits limits;
    uint32_t sessions, kv_blocks, kv_blocks_free;
    char kernels[160]; /* what computes the logits; "": an older server, which does not say */
    uint64_t target;   /* as in ft_msg_opened */
} ft_msg_info;

typedef enum ft_client_kind {
    FT_CLIENT_OPEN,
    FT_CLIENT_DRAFT,
    FT_CLIENT_CANCEL,
    FT_CLIENT_CLOSE
} ft_client_kind;

typedef struct ft_client_msg {
    ft_client_kind kind;
    union {
        ft_msg_open open;
        ft_msg_draft draft;
    };
} ft_client_msg;

typedef enum ft_server_kind { FT_SERVER_OPENED, FT_SERVER_VERDICT } ft_server_kind;

typedef struct ft_server_msg {
    ft_server_kind kind;
    /* Not on the wire: when it was read, it had been on this machine for so long. 0 also if nobody
     * knows. */
    int64_t waited_us;
    union {
        ft_msg_opened opened;
        ft_msg_verdict verdict;
    };
} ft_server_msg;

/* Limits that the decoder of client messages enforces. */
typedef struct ft_wire_limits {
    uint32_t n_vocab;     /* ids must be below */
    uint32_t max_context; /* prompt tokens at most */
    uint32_t max_tree;
    uint32_t max_evidence_bytes; /* of a Draft; 0: none is taken */
} ft_wire_limits;

/* The largest ClientMessage that a decoder takes under these limits. */
size_t ft_client_msg_max_bytes(const ft_wire_limits *limits);

/* Decoders allocate one message; free it with ft_*_msg_free (NULL is legal). FT_INVALID or
 * FT_TOO_LARGE say which field is wrong. Encoders write malloc'ed bytes, the caller frees them. */
FT_WARN_UNUSED ft_status ft_client_msg_decode(const uint8_t *data, size_t n,
                                              const ft_wire_limits *limits, ft_error *err,
                                              ft_client_msg **out);
FT_WARN_UNUSED ft_status ft_client_msg_encode(const ft_client_msg *msg, ft_error *err,
                                              uint8_t **data, size_t *n);
void ft_client_msg_free(ft_client_msg *msg);
/* Copies a message and what it points to, in one block as the decoder makes it. NULL: no memory. */
ft_client_msg *ft_client_msg_dup(const ft_client_msg *msg);
FT_WARN_UNUSED ft_status ft_server_msg_decode(const uint8_t *data, size_t n, ft_error *err,
                                              ft_server_msg **out);
FT_WARN_UNUSED ft_status ft_server_msg_encode(const ft_server_msg *msg, ft_error *err,
                                              uint8_t **data, size_t *n);
void ft_server_msg_free(ft_server_msg *msg);
FT_WARN_UNUSED ft_status ft_info_decode(const uint8_t *data, size_t n, ft_error *err,
                                        ft_msg_info *out);
FT_WARN_UNUSED ft_status ft_info_encode(const ft_msg_info *info, ft_error *err, uint8_t **data,
                                        size_t *n);

#endif
