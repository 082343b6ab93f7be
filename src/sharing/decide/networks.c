/*
 * networks.c: the layers of networks, read from JSON (gridsmith.network/1).
 *
 * Each layer is a convolution: channels in and out, height and width of the filter, stride, groups, and the side of the
 * result in pixels. Fully connected layers are convolutions of one pixel. What has no weights, such as pooling and
 * additions, is left out: it takes little of the time. The networks of networks/ are compiled into the program; the
 * layers have the names of torchvision, and the tests compare the numbers of parameters and multiplications with the
 * published ones.
 */
#include "builtin_networks.h"

#include <stdlib.h>

enum { MOST_LAYERS = 1 << 16, MOST_CHANNELS = 1 << 20, MOST_FILTER = 1 << 10, MOST_SIDE = 1 << 16 };

static const gs_field network_fields[] = {
    {"schema", GS_FIELD_OTHER, true, 0, 0, 0},
    {"network", GS_FIELD_NAME, true, offsetof(gs_network, name), 0, 0},
    {"title", GS_FIELD_OTHER, false, 0, 0, 0},
    {"source", GS_FIELD_OTHER, false, 0, 0, 0},
    {"repeat", GS_FIELD_INT64, false, offsetof(gs_network, repeat), 1, INT32_MAX},
    {"layers", GS_FIELD_OTHER, true, 0, 0, 0},
};

static const gs_field layer_fields[] = {
    {"layer", GS_FIELD_NAME, true, offsetof(gs_layer, name), 0, 0},
    {"in", GS_FIELD_INT32, true, offsetof(gs_layer, in), 1, MOST_CHANNELS},
    {"out", GS_FIELD_INT32, true, offsetof(gs_layer, out), 1, MOST_CHANNELS},
    {"height", GS_FIELD_INT32, false, offsetof(gs_layer, height), 1, MOST_FILTER},
    {"width", GS_FIELD_INT32, false, offsetof(gs_layer, width), 1, MOST_FILTER},
    {"stride", GS_FIELD_INT32, false, offsetof(gs_layer, stride), 1, MOST_FILTER},
    {"groups", GS_FIELD_INT32, false, offsetof(gs_layer, groups), 1, MOST_CHANNELS},
    {"size", GS_FIELD_INT32, false, offsetof(gs_layer, size), 1, MOST_SIDE},
};

static gs_code read_layer(const gs_json *json, const gs_step *at, gs_layer *layer, gs_error *error) {
    *layer = (gs_layer){.height = 1, .width = 1, .stride = 1, .groups = 1, .size = 1};
    gs_code code = gs_json_object(json, at, layer_fields, GS_COUNT(layer_fields), layer, error);
    if (code == GS_OK && (layer->in % layer->groups || layer->out % layer->groups)) {
        gs_step groups = gs_step_key(at, "groups");
        code = gs_json_fail(json, &groups, false, error, "\"groups\" must divide %d channels in and %d out", layer->in,
                            layer->out);
    }
    return code;
}

static gs_code read_layers(const gs_json *json, const gs_step *root, gs_network *network, gs_error *error) {
    gs_step list = gs_step_key(root, "layers");
    size_t count = json_array_size(list.value);
    if (!count || count > MOST_LAYERS)
        return gs_json_fail(json, &list, false, error, "\"layers\" must be a list of 1 to %d layers", MOST_LAYERS);
    if (!GS_RESERVE(&network->layers, count))
        return gs_fail_memory(error);
    gs_code code = GS_OK;
    for (size_t i = 0; i < count && code == GS_OK; i++) {
        gs_step entry = gs_step_index(&list, i);
        code = read_layer(json, &entry, &network->layers.data[network->layers.count++], error);
    }
    return code;
}

gs_code gs_network_read(const gs_json *json, gs_network *network, gs_error *error) {
    gs_step root = gs_step_root(json);
    *network = (gs_network){.repeat = 1};
    gs_code code = gs_json_schema(json, &root, GS_NETWORK_SCHEMA, error);
    if (code == GS_OK)
        code = gs_json_object(json, &root, network_fields, GS_COUNT(network_fields), network, error);
    if (code == GS_OK)
        code = read_layers(json, &root, network, error);
    if (code != GS_OK)
        gs_network_free(network);
    return code;
}

bool gs_network_is(const gs_json *json) {
    const char *schema = json_string_value(json_object_get(json->root, "schema"));
    return schema && strcmp(schema, GS_NETWORK_SCHEMA) == 0;
}

void gs_network_free(gs_network *network) {
    for (size_t i = 0; i < network->layers.count; i++)
        free(network->layers.data[i].name);
    free(network->layers.data);
    free(network->name);
    *network = (gs_network){.name = NULL};
}

/* ---- those that are built in ---- */

const char *gs_network_at(size_t number) {
    return number < gs_builtin_networks.count ? gs_builtin_networks.data[number].name : NULL;
}

bool gs_network_exists(const char *name) {
    return gs_embedded_find(&gs_builtin_networks, name) != NULL;
}

gs_code gs_network_open(const char *name, gs_network *network, gs_error *error) {
    const gs_embedded_file *builtin = gs_embedded_find(&gs_builtin_networks, name);
    gs_json json;
    if (!builtin)
        return gs_fail(error, GS_E_USAGE, "there is no network \"%.60s\"", name);
    gs_input *input = gs_input_memory(name, builtin->bytes, builtin->count, error);
    if (!input)
        return GS_E_MEMORY;
    gs_code code = gs_json_next(input, &json, error);
    if (code == GS_OK)
        code = gs_network_read(&json, network, error);
    gs_json_free(&json);
    gs_input_close(input);
    return code;
}
