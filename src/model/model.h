/* SPDX-License-Identifier: Apache-2.0
 *
 * A model file (GGUF) as hyperparameters and placed weights. Loading checks every count, offset and
 * type against the file's size before ggml or libllama reads the file, because ggml asserts on bad
 * input and we must not. A loaded model is immutable; any thread may read it.
 */
#ifndef FT_MODEL_MODEL_H
#define FT_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "base/status.h"
#include "ggml-backend.h"
#include "ggml.h"
#include "model/pack.h"
#include "model/pack_cache.h"
#include "model/device.h"

enum { FT_MAX_LAYERS = 512 /* libllama's own limit */ };

typedef enum ft_family {
    FT_FAMILY_LLAMA,
    FT_FAMILY_QWEN2,
    FT_FAMILY_QWEN3,
    FT_FAMILY_COUNT
} ft_family;

typedef struct ft_hparams {
    ft_family family;
    uint32_t n_vocab, n_layer, n_embd, n_ff;
    uint32_t n_head, n_head_kv; /* n_head a multiple of n_head_kv */
    uint32_t head_dim;          /* of K and V */
    uint32_t n_rot;             /* dimensions that RoPE rotates */
    uint32_t n_ctx_train;
    float rms_eps;
    float rope_base;
    float rope_scale; /* linear: positions are multiplied by it; 1: none */
    int rope_type;    /* GGML_ROPE_TYPE_NORMAL or _NEOX, by family */
} ft_hparams;

/* One layer. wqkv and wgate_up are concatenations along the output rows, made at load if the parts
 * have one type; otherwise they are NULL and the parts are set. A tensor that the family does not
 * have is NULL. Shapes are in ggml order: ne = [n_in, n_out]. Matrices may be packed (ask
 * ft_is_packed, model/pack.h); only the engine's own product (engine/gemm.h) may read packed
 * ones. */
typedef struct ft_layer {
    struct ggml_tensor *attn_norm;              /* [n_embd] */
    struct ggml_tensor *wqkv, *wq, *wk, *wv;    /* [n_embd, (n_head + 2 n_head_kv) head_dim] ... */
    struct ggml_tensor *bq, *bk, *bv;           /* qwen2 */
    struct ggml_tensor *q_norm, *k_norm;        /* [head_dim], qwen3 */
    struct ggml_tensor *wo, *bo;                /* [n_head head_dim, n_embd] */
    struct ggml_tensor *ffn_norm;               /* [n_embd] */
    struct ggml_tensor *wgate_up, *wgate, *wup; /* [n_embd, 2 n_ff] gate rows first */
    struct ggml_tensor *wdown;                  /* [n_ff, n_embd] */
    struct ggml_tensor *rope_freqs;             /* a copy of ft_weights', at the layer's place */
} ft_layer;

typedef struct ft_weights {
    /* [n_embd, n_vocab]; plain layout, or that of a tied output head if ft_pack_has_rows */
    struct ggml_tensor *tok_embd;
    struct ggml_tensor *output_norm; /* [n_embd] */
    struct ggml_tensor *output;      /* [n_embd, n_vocab]; tied models: tok_embd's values, maybe a
                                        packed copy */
    struct ggml_tensor *rope_freqs;  /* [n_rot / 2] factors in host memory, or NULL */
    ft_layer *layers;                /* [n_layer] */
} ft_weights;

typedef struct ft_model ft_model;

/* The matrices that stay in the file: an engine will read them in every pass. */
typedef struct ft_stream_choice {
    uint64_t layers[FT_MAX_LAYERS / 64]; /* bit i % 64 of [i / 64]: those of layer i */
    bool head, embedding;                /* a weight that is both stays if both are set */
} ft_stream_choice;

typedef struct ft_model_opts {
    const char *path;
    bool no_pack;   /* no weights in our own layout: for programs that run ggml operators on
                             them, and for comparisons */
    bool no_repack; /* plain buffer types only: neither our layout nor ggml's repacked ones */
    ft_pack_choice *choose; /* which weights to pack in our own layout: engine/products.h has the
                               rule; NULL: all that can be */
    ft_progress progress;   /* in bytes */
    /* Where the weights are kept as they are packed: the first load makes a packed file there, and
     * later ones map it. What fails costs a line of the log, and the weights are packed at each
     * load. It is not used with devices, with `stream`, nor for packed files. NULL: none. */
    const ft_pack_cache *cache;
    bool map;    /* of a packed file: map the weights where that is as fast as memory of our own */
    uint64_t of; /* of a packed file: FT_CORRUPT if it is not of this (packed_file.h); 0: of any */
    /* The last n_gpu_layers layers (negative: all) go to these devices, in plain layout. If
     * n_gpu_layers is more than the number of layers, embedding and output head go there, too. NULL
     * or empty: the CPU. */
    const ft_devices *devices;
    int n_gpu_layers;
    /* Where to put the file's vocabulary, which the caller then destroys: the file is opened once
     * for both, so they belong together whatever happens to the path meanwhile. NULL: not
     * wanted. */
    struct ft_vocab **vocab;
    /* Chooses the matrices that get no memory (model/extents.h), when the file is checked and
     * nothing is allocated. `model` then answers ft_model_hparams, ft_model_get_memory (of all
     * weights) and the functions of model/extents.h; *out is all false at first. An error ends the
     * loading. Vectors always get memory; so do matrices on devices (FT_INVALID if one is chosen).
     * The hashes of what stays in a packed file are checked by who reads it; those of the embedding
     * are checked here, because its rows are read singly. ft_model_inspect asks it, too. NULL: all
     * get memory. */
    ft_status (*stream)(void *stream_ctx, const ft_model *model, ft_error *err,
                        ft_stream_choice *out);
    void *stream_ctx;
} ft_model_opts;

/* Opens and checks the file and places the weights. Errors: FT_IO, FT_CORRUPT (names the tensor or
 * key), FT_UNSUPPORTED (family, type), FT_NOMEM. The caller destroys *out; it is NULL on
 * failure. */
FT_WARN_UNUSED ft_status ft_model_load(const ft_model_opts *opts, ft_error *err, ft_model **out);
void ft_model_destroy(ft_model *model);

/* Borrowed until the model is destroyed. ft_model_path is the path that was passed at load. */
const ft_hparams *ft_model_hparams(const ft_model *model);
const ft_weights *ft_model_weights(const ft_model *model);
const char *ft_model_path(const ft_model *model);
/* general.name, or the file's base name. */
const char *ft_model_name(const ft_model *model);
/* Equal for equal content, whatever the names of file and model. They cover hyperparameters,
 * vocabulary, names, types and sizes of tensors, and a part of their values. Another quantization
 * has another fingerprint. Never 0. */
typedef struct ft_fingerprints {
    uint64_t model;   /* with the first 4 KiB of each tensor */
    uint64_t weights; /* with 4 KiB at the beginning, in the middle and at the end of each */
} ft_fingerprints;
ft_fingerprints ft_model_fingerprints(const ft_model *model);
/* That of the model. */
uint64_t ft_model_fingerprint(const ft_model *model);
/* The type of most layer weights, such as "IQ4_NL". */
const char *ft_model_type_name(const ft_model *model);
/* Bytes of the weights' memory at one place (0: the CPU, n + 1: the n-th device), repacked copies
 * included. */
size_t ft_model_bytes_on(const ft_model *model, uint32_t where);
/* The devices that hold weights, and the place of each weight: 0 for the CPU, else 1 + the number
 * of a device. */
const ft_devices *ft_model_devices(const ft_model *model);
/* Layers on devices; with the output head one more than the number of layers. */
uint32_t ft_model_n_gpu_layers(const ft_model *model);
uint32_t ft_model_where_layer(const ft_model *model, uint32_t layer);
uint32_t ft_model_where_head(const ft_model *model);
uint32_t ft_model_where_embedding(const ft_model *model);
/* What multiplies with the matrices: in each set, bit t stands for ggml type t. */
typedef struct ft_model_products {
    uint64_t packed, by_ggml, on_devices;
} ft_model_products;
/* Bytes of the weights: all of them, those in our own layout, those in one of ggml's repacked
 * layouts, and those that exist twice because of a layout (a tied output head beside the
 * embedding). */
typedef struct ft_model_memory {
    uint64_t bytes, packed_bytes, repacked_bytes, copied_bytes;
    ft_model_products products;
} ft_model_memory;
ft_model_memory ft_model_get_memory(const ft_model *model);
/* True if every matrix of the layers is packed in our layout or in one of ggml's. */
bool ft_model_repacked(const ft_model *model);

/* What a file contains. */
typedef struct ft_model_info {
    ft_hparams hp;
    char name[128];
    char type_name[16]; /* as ft_model_type_name */
    ft_fingerprints fingerprint;
    uint64_t n_params, file_bytes;
    /* The layers' matrices as they would be loaded here (joined ones count once), and how many of
     * them get packed in our layout or in one of ggml's. */
    uint32_t n_matrices, n_repacked;
    ft_model_memory memory; /* as it would be loaded here */
    bool tied;              /* the output head shares the embedding's values */
    bool rope_factors;      /* Llama 3's rope_freqs */
    bool packed_file;       /* made by ft_model_pack: the matrices' layout is the file's */
    struct {
        uint64_t n_tensors, bytes;
    } types[GGML_TYPE_COUNT]; /* by ggml_type */
} ft_model_info;

/* Does the part of ft_model_load that needs no weights, with the same errors. */
FT_WARN_UNUSED ft_status ft_model_inspect(const ft_model_opts *opts, ft_error *err,
                                          ft_model_info *out);

/* A family's name in files, such as "llama". */
const char *ft_family_name(ft_family family);

#endif
