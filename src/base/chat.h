/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversation as it goes from an API to a chat template, and what comes back: messages, tools
 * and calls of tools. All strings are UTF-8 and borrowed.
 */
#ifndef FT_BASE_CHAT_H
#define FT_BASE_CHAT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* The model calls a tool. */
typedef struct ft_chat_call {
    const char *id;        /* what the tool's result names; NULL: none */
    const char *name;      /* of the tool */
    const char *arguments; /* JSON: an object */
} ft_chat_call;

/* A message of a chat. */
typedef struct ft_chat_message {
    const char *role;          /* "system", "user", "assistant", "tool" */
    const char *content;       /* NULL: none, beside calls */
    const char *reasoning;     /* assistant: what it thought; NULL: not known */
    const ft_chat_call *calls; /* assistant: [n_calls] */
    size_t n_calls;
    const char *call_id; /* tool: the call that it answers; NULL: not said */
    const char *name;    /* tool: which one it is; NULL: not said */
} ft_chat_message;

/* A tool that the model may call. */
typedef struct ft_chat_tool {
    const char *name;
    const char *description; /* NULL: none */
    const char *parameters;  /* JSON: the schema of its arguments; NULL: it takes none */
} ft_chat_tool;

typedef enum ft_chat_choice {
    FT_CHAT_CHOICE_AUTO,    /* the model calls tools or speaks */
    FT_CHAT_CHOICE_NONE,    /* it calls none */
    FT_CHAT_CHOICE_REQUIRED /* it calls one: `choice_tool`, or any */
} ft_chat_choice;

/* A conversation, ready for the assistant's next message. */
typedef struct ft_chat {
    const ft_chat_message *messages; /* [n_messages] */
    size_t n_messages;
    const ft_chat_tool *tools; /* [n_tools] */
    size_t n_tools;
    ft_chat_choice choice;
    const ft_chat_tool *choice_tool; /* REQUIRED: one of `tools`; NULL: any of them */
    bool parallel_calls;             /* one message may have several calls */
    bool reasoning_apart;            /* with tools: thoughts are parts of their own */
    bool no_thought;                 /* a thought that the template itself begins ends at once */
    const char *template_args; /* JSON object: further variables of the template; NULL: none */
    const char
        *reasoning_effort; /* "low", "medium"..., as the template knows them; NULL: its own */
} ft_chat;

/* A piece of what the assistant says. The pieces of one kind (of one call) together are its text.
 */
typedef struct ft_chat_part {
    enum {
        FT_CHAT_PART_CONTENT,
        FT_CHAT_PART_REASONING,
        FT_CHAT_PART_CALL,     /* a call begins: `text` is the tool's name */
        FT_CHAT_PART_ARGUMENTS /* of call `call`: more of the JSON */
    } kind;
    size_t call;    /* calls are counted from 0 */
    const char *id; /* a call: what the model calls it; NULL: it does not */
    const char *text;
    size_t n;
} ft_chat_part;

/* Reads what the assistant says, where its text also has calls. One thread. */
typedef struct ft_chat_reader {
    void *ctx;
    /* More text, and whether it is the last. *parts: what is known by now, borrowed until the next
     * call. What is no call is content, all of it by the end. FT_NOMEM. */
    ft_status (*read)(void *ctx, const char *text, size_t n, bool last, const ft_chat_part **parts,
                      size_t *n_parts);
    void (*destroy)(void *ctx);
} ft_chat_reader;

#endif
