// SPDX-License-Identifier: Apache-2.0
// Perceptrons in JSON files. A file may come from anywhere: all sizes are checked before memory is
// allocated. Stateless.
#include "learn/mlp_file.h"

#include "learn/fields.h"

bool ft_mlp_write(const ft_mlp *mlp, json_t *object)
{
    const uint32_t n_layers = mlp->shape.n_layers;
    json_t *weights = json_array(), *biases = json_array();
    bool good = true;
    for (uint32_t i = 0; i < n_layers; i++) {
        const size_t n_in = mlp->shape.width[i], n_out = mlp->shape.width[i + 1];
        good &= !json_array_append_new(weights, ft_field_floats_json(mlp->weight[i], n_in * n_out));
        good &= !json_array_append_new(biases, ft_field_floats_json(mlp->bias[i], n_out));
    }
    good &= !json_object_set_new(object, "layers",
                                 ft_field_wholes_json(mlp->shape.width, n_layers + 1));
    good &= !json_object_set_new(object, "biases", biases);
    good &= !json_object_set_new(object, "weights", weights);
    return good;
}

static bool shape_of(const json_t *layers, const ft_mlp_limits *limits, ft_mlp_shape *out)
{
    const size_t n = json_array_size(layers); /* 0 where it is no array */
    *out = (ft_mlp_shape){0};
    if (n < 2 || n > FT_MLP_LAYERS + 1 || !ft_field_wholes(layers, n, FT_MLP_WIDTH, out->width))
        return false;
    out->n_layers = (uint32_t)n - 1;
    return out->width[0] == limits->n_inputs && out->width[n - 1] == limits->n_outputs &&
           ft_mlp_n_params(out) <= limits->params_max;
}

static bool numbers(const json_t *array, size_t n, float *out)
{
    return ft_field_floats(array, n, -FT_MLP_VALUE_MAX, FT_MLP_VALUE_MAX, out);
}

static ft_status bad(ft_error *err, const char *field, const char *what)
{
    return ft_error_set(err, FT_INVALID, "'%s' is missing or is not a list of %s", field, what);
}

ft_status ft_mlp_read(const json_t *object, const ft_mlp_limits *limits, ft_error *err, ft_mlp *out)
{
    const json_t *weights = json_object_get(object, "weights");
    const json_t *biases = json_object_get(object, "biases");
    ft_mlp_shape shape;
    *out = (ft_mlp){0};
    if (!shape_of(json_object_get(object, "layers"), limits, &shape))
        return ft_error_set(err, FT_INVALID,
                            "'layers' is missing or is not a list of layers' widths, from %u "
                            "inputs to %u outputs",
                            limits->n_inputs, limits->n_outputs);
    for (uint32_t i = 0; i < shape.n_layers; i++)
        if (json_array_size(json_array_get(weights, i)) !=
            (size_t)shape.width[i] * shape.width[i + 1])
            return bad(err, "weights", "lists that fit 'layers'");
    ft_status status = ft_mlp_init(&shape, err, out);
    for (uint32_t i = 0; i < shape.n_layers && status == FT_OK; i++) {
        const size_t n = (size_t)shape.width[i] * shape.width[i + 1];
        if (!numbers(json_array_get(weights, i), n, out->weight[i]))
            status = bad(err, "weights", "lists of numbers");
        else if (!numbers(json_array_get(biases, i), shape.width[i + 1], out->bias[i]))
            status = bad(err, "biases", "lists of numbers that fit 'layers'");
    }
    return status;
}
