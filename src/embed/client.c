// SPDX-License-Identifier: Apache-2.0
// libforetoken's clients: an edge with one server. Its options are those of `foretoken edge`
// without flags. A generation runs in its caller's thread.
#include <stdlib.h>
#include <string.h>

#include "base/chat_prefix.h"
#include "edge/edge.h"
#include "embed/handles.h"
#include "template/template.h"

/* As `edge --draft auto` has them: SpecEdge's budget (section 5), 16 levels, 8 leaves a pass. */
#define NODES  32
#define LEVELS 16
#define WIDTH  8

struct foretoken_client {
    ft_vocab *vocab;
    ft_model *draft; /* NULL: nothing is drafted */
    ft_wire_client *wire;
    ft_edge *edge;
};

static ft_status load(foretoken_client *c, const foretoken_client_opts *opts, ft_error *err)
{
    if (!opts->draft == !opts->vocabulary)
        return ft_error_set(err, FT_INVALID,
                            "embed: a client has a draft model, or a file of the server's "
                            "vocabulary, and not both");
    return opts->draft ? ft_embed_load(opts->draft, err, &c->draft, &c->vocab)
                       : ft_embed_load(opts->vocabulary, err, NULL, &c->vocab);
}

static ft_status open_edge(foretoken_client *c, const foretoken_client_opts *opts, ft_error *err)
{
    const ft_wire_client_opts wire = {
        .address = opts->server, .token = opts->token, .tls = opts->tls};
    if (!opts->server)
        return ft_error_set(err, FT_INVALID, "embed: a client needs a server");
    ft_status status = ft_wire_client_create(&wire, err, &c->wire);
    if (status != FT_OK)
        return status;
    const ft_edge_opts edge = {.vocab = c->vocab,
                               .draft_model = c->draft,
                               .source = ft_link_source_wire(c->wire),
                               .draft = c->draft ? ft_draft_params_tree(NODES, LEVELS, WIDTH)
                                                 : (ft_draft_params){0},
                               .automatic = true,
                               .proactive = true,
                               .proactive_if_long = true,
                               .early = true,
                               .clock = ft_clock_monotonic(),
                               .n_threads = opts->threads};
    return ft_edge_create(&edge, err, &c->edge);
}

int foretoken_client_open(const foretoken_client_opts *opts, foretoken_error *error,
                          foretoken_client **out)
{
    ft_error err = {0};
    foretoken_client *c = calloc(1, sizeof *c);
    *out = NULL;
    ft_embed_quiet();
    ft_status status = c ? FT_OK : ft_error_set(&err, FT_NOMEM, "embed: no memory for a client");
    if (status == FT_OK)
        status = load(c, opts, &err);
    if (status == FT_OK)
        status = open_edge(c, opts, &err);
    if (status != FT_OK) {
        foretoken_client_close(c);
        return ft_embed_error(&err, error);
    }
    *out = c;
    return 0;
}

void foretoken_client_close(foretoken_client *client)
{
    if (!client)
        return;
    ft_edge_destroy(client->edge);
    ft_wire_client_destroy(client->wire);
    ft_model_destroy(client->draft);
    ft_vocab_destroy(client->vocab);
    free(client);
}

static bool on_text(void *ctx, const char *text, size_t n, const ft_gen_token *tokens,
                    size_t n_tokens)
{
    const foretoken_request *request = ctx;
    (void)tokens;
    (void)n_tokens;
    return n == 0 || request->on_text(request->ctx, text, n);
}

/* As the API's, so that a proxy brings the chat to the same server whoever asks. */
static uint64_t prefix_of(const foretoken_request *request)
{
    const ft_chat_message message = {.role = "user", .content = request->prompt};
    return request->chat ? ft_chat_prefix_of(&message, 1) : 0;
}

static ft_status render(const foretoken_client *c, const foretoken_request *request, ft_error *err,
                        ft_tokens *out)
{
    if (!request->prompt || !request->on_text)
        return ft_error_set(err, FT_INVALID, "embed: a request needs a prompt and on_text");
    if (request->chat)
        return ft_template_ask(c->vocab, request->prompt, err, out);
    return ft_vocab_tokenize(c->vocab, request->prompt, strlen(request->prompt), NULL, err, out);
}

int foretoken_client_generate(foretoken_client *client, const foretoken_request *request,
                              foretoken_answer *answer, foretoken_error *error)
{
    foretoken_request copy = *request;
    const ft_gen_sink sink = {.ctx = &copy, .on_text = on_text};
    ft_error err = {0};
    ft_tokens prompt = {0};
    ft_gen_stats stats = {0};
    ft_gen_request ours = {.max_tokens = request->max_tokens};
    ft_status status = ft_embed_sampling(&request->sampling, &err, &ours.sampling);
    if (status == FT_OK)
        status = render(client, request, &err, &prompt);
    if (status == FT_OK) {
        ours.prompt = prompt.id;
        ours.n_prompt = (uint32_t)prompt.n;
        ours.prefix = prefix_of(request);
        status = ft_edge_generate(client->edge, &ours, &sink, &err, &stats);
    }
    ft_tokens_deinit(&prompt);
    if (answer)
        *answer = (foretoken_answer){.tokens = stats.tokens,
                                     .drafted = stats.drafted,
                                     .accepted = stats.accepted,
                                     .sent_bytes = stats.bytes_sent,
                                     .received_bytes = stats.bytes_received};
    return status == FT_OK ? 0 : ft_embed_error(&err, error);
}
