/*
 * zoo_network.c: networks as applications of `gridsmith zoo load`.
 *
 * A layer is im2col, unless its filter is 1x1 without a stride, and then tgemm: the same launches that
 * `plan --simulate` counts (tasks.c). All layers use the same four buffers, because only their time matters: the images
 * and the filters have random values, whatever the layer before has computed. im2col reads the pixels of a filter with
 * the stride 1, and groups of channels all use the first of them.
 *
 * The large size has 32 images. The others are a small network, the same for all, whose results are compared with those
 * of the loops below.
 */
#include "sharing/decide/decide.h"
#include "zoo_verbs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct network_kernel {
    gs_zoo_kernel kernel; /* the first: gs_zoo_instance has its address */
    gs_network network;
};

/* What a layer does. */
struct product {
    int rows, columns, depth;   /* of tgemm */
    int channels, height, side; /* of im2col: `height` rows of pixels, for all images */
    int width;
    bool is_direct; /* without im2col */
};

enum { IMAGE, FILTER, OUT, MATRIX, BUFFERS };

static struct product product_of(const gs_layer *layer, int images) {
    struct product product = {.rows = layer->out,
                              .columns = images * layer->size * layer->size,
                              .depth = layer->in / layer->groups * layer->height * layer->width,
                              .channels = layer->in,
                              .height = images * layer->size,
                              .width = layer->size,
                              .side = (int)gs_max(layer->height, layer->width)};
    product.is_direct = product.side == 1 && layer->stride == 1;
    return product;
}

/* Three layers: a filter of 3x3, two groups of one of 1x3, and a fully connected one. */
static const gs_layer small_layers[] = {
    {.in = 3, .out = 5, .height = 3, .width = 3, .stride = 2, .groups = 1, .size = 6},
    {.in = 4, .out = 6, .height = 1, .width = 3, .stride = 1, .groups = 2, .size = 5},
    {.in = 20, .out = 7, .height = 1, .width = 1, .stride = 1, .groups = 1, .size = 1},
};

/* The layers of a size, and how many images they have. */
static const gs_layer *layers_of(const gs_zoo_kernel *kernel, const int32_t *n, size_t *count) {
    const gs_network *network = &((const struct network_kernel *)kernel)->network;
    bool is_small = n[1] == 0;
    *count = is_small ? GS_COUNT(small_layers) : network->layers.count;
    return is_small ? small_layers : network->layers.data;
}

static void add_buffers(gs_zoo_instance *instance, const gs_layer *layers, size_t count, int images) {
    size_t most[BUFFERS] = {0};
    for (size_t i = 0; i < count; i++) {
        struct product product = product_of(&layers[i], images);
        size_t matrix = (size_t)product.depth * (size_t)product.columns;
        size_t image = (size_t)product.channels * (size_t)product.columns;
        most[IMAGE] = gs_max_u64(most[IMAGE], product.is_direct ? matrix : image);
        most[FILTER] = gs_max_u64(most[FILTER], (size_t)product.rows * (size_t)product.depth);
        most[OUT] = gs_max_u64(most[OUT], (size_t)product.rows * (size_t)product.columns);
        most[MATRIX] = product.is_direct ? most[MATRIX] : gs_max_u64(most[MATRIX], matrix);
    }
    gs_zoo_buffer_add(instance, GS_FLOAT16, most[IMAGE], -1, 1);
    gs_zoo_buffer_add(instance, GS_FLOAT16, most[FILTER], -1, 1);
    gs_zoo_buffer_zero(instance, GS_FLOAT32, most[OUT]);
    gs_zoo_buffer_zero(instance, GS_FLOAT16, most[MATRIX] + 1);
    instance->buffers[MATRIX].is_scratch = true;
}

static uint32_t parts(int all, int part) {
    return (uint32_t)gs_divide_up(all, part);
}

static void instance_network(gs_zoo_instance *instance, const int32_t *n) {
    enum { TILE = 64, THREADS = 256, WARPS = 4 };
    size_t count;
    const gs_layer *layers = layers_of(instance->kernel, n, &count);
    add_buffers(instance, layers, count, n[0]);
    for (size_t i = 0; i < count; i++) {
        struct product product = product_of(&layers[i], n[0]);
        if (!product.is_direct)
            gs_zoo_launch_add(instance, "conv", "im2col",
                              (const uint32_t[]){parts(product.columns, THREADS), (uint32_t)product.depth, 1},
                              (const uint32_t[]){THREADS, 1, 1}, "bbiiii", IMAGE, MATRIX, product.channels,
                              product.height, product.width, product.side);
        gs_zoo_launch_add(instance, "tgemm", "tgemm",
                          (const uint32_t[]){parts(product.columns, TILE), parts(product.rows, TILE), 1},
                          (const uint32_t[]){32, WARPS, 1}, "bbbiii", FILTER, product.is_direct ? IMAGE : MATRIX, OUT,
                          product.rows, product.columns, product.depth);
    }
}

/* ---- the reference of the small sizes ---- */

static void copy_pixels(void *const *data, const struct product *product) {
    for (int weight = 0; weight < product->depth; weight++)
        for (int place = 0; place < product->columns; place++) {
            int side = product->side, channel = weight / (side * side);
            int y = place / product->width + weight / side % side - side / 2,
                x = place % product->width + weight % side - side / 2;
            bool is_inside = y >= 0 && x >= 0 && y < product->height && x < product->width;
            size_t from = ((size_t)channel * (size_t)product->height + (size_t)y) * (size_t)product->width + (size_t)x;
            gs_scalar_put(GS_FLOAT16, is_inside ? gs_scalar_value(GS_FLOAT16, data[IMAGE], from) : 0, data[MATRIX],
                          (size_t)weight * (size_t)product->columns + (size_t)place);
        }
}

static void multiply(void *const *data, const struct product *product) {
    const void *right = data[product->is_direct ? IMAGE : MATRIX];
    for (int row = 0; row < product->rows; row++)
        for (int column = 0; column < product->columns; column++) {
            double sum = 0;
            for (int k = 0; k < product->depth; k++)
                sum += gs_scalar_value(GS_FLOAT16, data[FILTER], (size_t)row * (size_t)product->depth + (size_t)k) *
                       gs_scalar_value(GS_FLOAT16, right, (size_t)k * (size_t)product->columns + (size_t)column);
            ((float *)data[OUT])[(size_t)row * (size_t)product->columns + (size_t)column] = (float)sum;
        }
}

static void reference_network(void *const *data, const int32_t *n) {
    for (size_t i = 0; i < GS_COUNT(small_layers); i++) {
        struct product product = product_of(&small_layers[i], n[0]);
        if (!product.is_direct)
            copy_pixels(data, &product);
        multiply(data, &product);
    }
}

/* ---- as kernels of the zoo ---- */

/* Whether the kernels, which count with ints, can count the elements of a layer. */
static bool can_be_played(const gs_layer *layer) {
    enum { IMAGES = 32 };
    double columns = (double)IMAGES * layer->size * layer->size;
    double depth = (double)layer->in / layer->groups * layer->height * layer->width;
    return columns * fmax(depth, fmax(layer->in, layer->out)) <= INT32_MAX && layer->out * depth <= INT32_MAX;
}

const gs_zoo_kernel *gs_zoo_network_of(const gs_network *network, gs_error *error) {
    struct network_kernel *made = NULL;
    for (size_t i = 0; i < network->layers.count; i++)
        if (!can_be_played(&network->layers.data[i])) {
            gs_fail(error, GS_E_USAGE, "the layer %.60s of %.60s has too many numbers to be played",
                    network->layers.data[i].name, network->name);
            return NULL;
        }
    if (!(made = calloc(1, sizeof *made))) {
        gs_fail_memory(error);
        return NULL;
    }
    made->network = *network;
    made->kernel = (gs_zoo_kernel){.name = made->network.name,
                                   .summary = "a network, as im2col and tgemm",
                                   .numbers = "images, whether it is the whole network",
                                   .sizes = {{"tiny", {1}}, {"odd", {3}}, {"small", {2}}, {"large", {32, 1}}},
                                   .tolerance = 1e-4,
                                   .instance = instance_network,
                                   .reference = reference_network,
                                   .elastic = {9, 9}};
    return &made->kernel;
}

const gs_zoo_kernel *gs_zoo_network_open(const char *name, gs_error *error) {
    gs_network network;
    if (gs_network_open(name, &network, error) != GS_OK)
        return NULL;
    const gs_zoo_kernel *kernel = gs_zoo_network_of(&network, error);
    if (!kernel)
        gs_network_free(&network);
    return kernel;
}

void gs_zoo_network_close(const gs_zoo_kernel *kernel) {
    struct network_kernel *made = (struct network_kernel *)(uintptr_t)kernel;
    if (!made || made->kernel.instance != instance_network)
        return;
    gs_network_free(&made->network);
    free(made);
}
