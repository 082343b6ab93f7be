/*
 * fuzz_product.c: any bytes as the document of a product.
 *
 * What can be read has matrices of a size that is allowed, is written and read again as the same, and has a kernel.
 */
#include "fuzz.h"

#include "kernels/cuda/cuda.h"
#include "kernels/ptx/ptx.h"

#include <string.h>

static void write_again(const gs_product *product) {
    gs_product again;
    gs_text text = {0};
    gs_product_write(product, &text);
    require(!text.failed && gs_product_is(text.data, text.count));
    require(gs_product_read("again", text.data, text.count, &again, NULL) == GS_OK);
    require(memcmp(product, &again, sizeof again) == 0);
    gs_text_free(&text);
}

static void read_kernel(const gs_product *product) {
    gs_ptx_module module;
    gs_text text = {0};
    gs_product_ptx(product, &text);
    require(!text.failed && gs_ptx_read(&module, "kernel", text.data, text.count, NULL) == GS_OK);
    require(gs_ptx_find_entry(&module, GS_PRODUCT_KERNEL) != GS_PTX_NONE);
    gs_ptx_free(&module);
    gs_text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    gs_product product;
    gs_error error;
    gs_product_is((const char *)data, size);
    if (gs_product_read("fuzz", (const char *)data, size, &product, &error) != GS_OK)
        return 0;
    for (size_t i = 0; i < GS_PRODUCT_MATRICES; i++)
        require(gs_product_bytes(&product, i) > 0 && gs_product_bytes(&product, i) <= (uint64_t)4 << 30);
    write_again(&product);
    read_kernel(&product);
    return 0;
}
