/*
 * cache.h: the folder of the cache, private to this room. See cache.c.
 */
#ifndef GS_CACHE_H
#define GS_CACHE_H

#include "image.h"

enum { GS_CACHE_PATH = 3000 };

struct gs_cache {
    char folder[GS_CACHE_PATH]; /* absolute */
    int fd;
};

/* The key of the image of a source. Reads the source. */
gs_code gs_cache_key(const gs_image_request *request, char key[65], gs_error *error);
/* A new folder for a compiler: "work-PROCESS-XXXXXX". */
gs_code gs_cache_scratch(const gs_cache *cache, char *path, size_t size, gs_error *error);
/* Takes the file "image" of a scratch folder over. It is verified, and put into place if it can be kept. */
gs_image *gs_cache_install(const gs_cache *cache, const char *scratch, const char *key, bool can_be_kept,
                           gs_error *error);

#endif
