/*
 * client.c: the calls of the client library. With link.c, ring.c and descriptors.c it needs the C library alone.
 *
 * The handles of memory, regions and modules are chosen here. A caller's mistakes are found here and get a message: the
 * daemon ends a client that sends invalid commands.
 */
#define _GNU_SOURCE
#include "descriptors.h"
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    OFFSET_BITS = 40, /* of an address; the handle is above them */
    CHUNK_BYTES = 1 << 20,
};

/* ---- handles ---- */

/* A command that makes something with a handle. The daemon replies to it. */
struct creation {
    void *command;
    size_t bytes;
    uint32_t *handle, *reply, *ticket; /* in the command */
    int fd;                            /* a file that goes with it, or -1 */
};

#define CREATION(wire, what, file)                                                                                     \
    {                                                                                                                  \
        .command = wire, .bytes = sizeof *(wire), .handle = &(wire)->what, .reply = &(wire)->reply,                    \
        .ticket = &(wire)->ticket, .fd = file                                                                          \
    }

/* Adds a handle with `size` to the table, and waits for the reply, without the lock. */
static gs_client_code create_handle(gs_client *client, struct gs_link_table *table, uint64_t size,
                                    const struct creation *creation, const char *words) {
    gs_client_code code;
    pthread_mutex_lock(&client->lock);
    *creation->handle = gs_link_add(table, size);
    if (*creation->handle) {
        *creation->reply = gs_link_reply_take(client, creation->ticket);
        code = creation->fd < 0 ? gs_link_put(client, creation->command, creation->bytes)
                                : gs_link_put_file(client, creation->command, creation->bytes, creation->fd);
        pthread_mutex_unlock(&client->lock);
        if (code == GS_CLIENT_OK)
            code = gs_link_reply_wait(client, *creation->reply, *creation->ticket);
        pthread_mutex_lock(&client->lock);
        if (creation->fd >= 0)
            gs_link_file_taken(client);
        gs_link_reply_give(client, *creation->reply);
        if (code != GS_CLIENT_OK)
            gs_link_remove(table, *creation->handle);
    } else {
        code =
            gs_link_fail(GS_CLIENT_MEMORY, "a client may have at most %u %s: all are in use", table->most - 1, words);
    }
    pthread_mutex_unlock(&client->lock);
    return code;
}

/* ---- memory of the GPU ---- */

gs_client_code gs_client_malloc(gs_client *client, size_t bytes, gs_client_memory *memory) {
    *memory = 0;
    if (!bytes)
        return gs_link_fail(GS_CLIENT_INVALID, "0 bytes cannot be allocated");
    if (bytes >> OFFSET_BITS)
        return gs_link_fail(GS_CLIENT_MEMORY, "an allocation must have less than %llu bytes, not %zu",
                            1ULL << OFFSET_BITS, bytes);
    gs_wire_allocate command = {.head = {.command = GS_WIRE_ALLOCATE}, .bytes = bytes};
    const struct creation creation = CREATION(&command, memory, -1);
    gs_client_code code = create_handle(client, &client->memories, bytes, &creation, "allocations");
    if (code == GS_CLIENT_OK)
        *memory = (uint64_t)command.memory << OFFSET_BITS;
    return code;
}

static uint32_t handle_of(gs_client_memory memory) {
    return (uint32_t)(memory >> OFFSET_BITS);
}

static uint64_t offset_of(gs_client_memory memory) {
    return memory & (((uint64_t)1 << OFFSET_BITS) - 1);
}

/* Under the lock. Whether the `bytes` from this address on are in one allocation. */
static gs_client_code check_memory(gs_client *client, gs_client_memory memory, uint64_t bytes) {
    struct gs_link_slot *slot = gs_link_find(&client->memories, handle_of(memory));
    if (!slot)
        return gs_link_fail(GS_CLIENT_INVALID, "0x%llx is not an address that malloc returned",
                            (unsigned long long)memory);
    if (offset_of(memory) > slot->bytes || bytes > slot->bytes - offset_of(memory))
        return gs_link_fail(GS_CLIENT_INVALID, "%llu bytes at offset %llu exceed the allocation of %llu bytes",
                            (unsigned long long)bytes, (unsigned long long)offset_of(memory),
                            (unsigned long long)slot->bytes);
    return GS_CLIENT_OK;
}

static gs_client_code free_handle(gs_client *client, struct gs_link_table *table, uint32_t command_kind,
                                  uint32_t handle) {
    gs_wire_free command = {.head = {.command = command_kind}, .handle = handle};
    gs_client_code code = gs_link_put(client, &command, sizeof command);
    gs_link_remove(table, handle);
    return code;
}

gs_client_code gs_client_free(gs_client *client, gs_client_memory memory) {
    if (!memory)
        return GS_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    gs_client_code code = check_memory(client, memory, 0);
    if (code == GS_CLIENT_OK)
        code = offset_of(memory) ? gs_link_fail(GS_CLIENT_INVALID,
                                                "only an address that malloc returned can be freed, not one inside it")
                                 : free_handle(client, &client->memories, GS_WIRE_FREE, handle_of(memory));
    pthread_mutex_unlock(&client->lock);
    return code;
}

/* ---- files sent to the daemon: host memory, sources ---- */

/* Makes shared memory with a sealed size. */
static int sized_file(size_t bytes) {
    int fd = memfd_create("gridsmith", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && (ftruncate(fd, (off_t)bytes) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Adds these seals for good. */
static bool seal_file(int fd, int seals) {
    return fcntl(fd, F_ADD_SEALS, seals | F_SEAL_SEAL) == 0;
}

/* Copies do not find the region before it has its address. */
static gs_client_code share_region(gs_client *client, int fd, size_t bytes, unsigned char *address, uint32_t *handle) {
    gs_wire_share command = {.head = {.command = GS_WIRE_SHARE}, .bytes = bytes};
    const struct creation creation = CREATION(&command, region, fd);
    gs_client_code code = create_handle(client, &client->regions, bytes, &creation, "regions of shared host memory");
    pthread_mutex_lock(&client->lock);
    if (code == GS_CLIENT_OK)
        client->regions.slots[command.region].address = address;
    pthread_mutex_unlock(&client->lock);
    *handle = command.region;
    return code;
}

static gs_client_code host_malloc(gs_client *client, size_t bytes, void **memory, uint32_t *handle) {
    int fd = sized_file(bytes);
    if (fd < 0)
        return gs_link_fail_system("make memory to share");
    void *address = seal_file(fd, 0) ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
    gs_client_code code = address == MAP_FAILED ? gs_link_fail_system("map memory to share")
                                                : share_region(client, fd, bytes, address, handle);
    if (code != GS_CLIENT_OK && address != MAP_FAILED)
        munmap(address, bytes);
    if (code == GS_CLIENT_OK)
        *memory = address;
    close(fd);
    return code;
}

gs_client_code gs_client_host_malloc(gs_client *client, size_t bytes, void **memory) {
    uint32_t handle;
    *memory = NULL;
    if (!bytes || bytes > SIZE_MAX / 4)
        return gs_link_fail(GS_CLIENT_INVALID, "%zu bytes cannot be allocated", bytes);
    return host_malloc(client, bytes, memory, &handle);
}

/* Under the lock. The region that has these bytes of this process, or 0. */
static uint32_t find_region(const gs_client *client, const void *memory, size_t bytes) {
    uintptr_t at = (uintptr_t)memory;
    for (uint32_t i = 1; i < client->regions.count; i++) {
        const struct gs_link_slot *slot = &client->regions.slots[i];
        uintptr_t begin = (uintptr_t)slot->address;
        if (begin && at >= begin && at - begin <= slot->bytes && bytes <= slot->bytes - (at - begin))
            return i;
    }
    return 0;
}

gs_client_code gs_client_host_free(gs_client *client, void *memory) {
    if (!memory)
        return GS_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    uint32_t region = find_region(client, memory, 0);
    gs_client_code code = GS_CLIENT_OK;
    if (!region || client->regions.slots[region].address != memory || memory == client->staging.memory)
        code = gs_link_fail(GS_CLIENT_INVALID, "the address was not returned by host_malloc");
    if (code == GS_CLIENT_OK) {
        munmap(memory, client->regions.slots[region].bytes);
        code = free_handle(client, &client->regions, GS_WIRE_UNSHARE, region);
    }
    pthread_mutex_unlock(&client->lock);
    return code;
}

/* ---- copies ---- */

static uint64_t stream_last(gs_client *client, uint32_t stream) {
    pthread_mutex_lock(&client->lock);
    uint64_t last = client->last[stream];
    pthread_mutex_unlock(&client->lock);
    return last;
}

static gs_client_code wait_command(gs_client *client, uint32_t stream, uint64_t number) {
    return gs_link_wait(client,
                        &(struct gs_link_condition){.counter = &client->page->streams[stream].done, .least = number});
}

/* The first failed command of the stream that was not returned yet; each is returned once. */
static gs_client_code stream_error(gs_client *client, uint32_t stream) {
    gs_wire_stream *page = &client->page->streams[stream];
    gs_client_code code = GS_CLIENT_OK;
    pthread_mutex_lock(&client->lock);
    uint32_t errors = atomic_load_explicit(&page->errors, memory_order_acquire);
    if (errors != client->errors[stream]) {
        code = gs_link_fail_message(page->code, page->message);
        client->errors[stream] = errors;
        atomic_store_explicit(&page->errors_seen, errors, memory_order_release);
    }
    pthread_mutex_unlock(&client->lock);
    return code;
}

static gs_client_code put_copy(gs_client *client, bool in, uint32_t stream, gs_client_memory memory, uint32_t region,
                               uint64_t region_at, size_t bytes) {
    gs_wire_copy command = {.head = {.command = in ? GS_WIRE_COPY_IN : GS_WIRE_COPY_OUT, .stream = stream},
                            .memory = handle_of(memory),
                            .region = region,
                            .at = offset_of(memory),
                            .region_at = region_at,
                            .bytes = bytes};
    return gs_link_put_stream(client, &command, sizeof command);
}

/* Makes a copy that needs no staging; `*is_done`: it was one. */
static gs_client_code copy_shared(gs_client *client, bool in, uint32_t stream, gs_client_memory memory,
                                  const void *host, size_t bytes, bool *is_done) {
    *is_done = true;
    gs_client_code code = gs_link_check_stream(stream);
    if (code != GS_CLIENT_OK)
        return code;
    pthread_mutex_lock(&client->lock);
    code = check_memory(client, memory, bytes);
    uint32_t region = code == GS_CLIENT_OK && bytes ? find_region(client, host, bytes) : 0;
    if (region)
        code = put_copy(client, in, stream, memory, region,
                        (uint64_t)((const unsigned char *)host - client->regions.slots[region].address), bytes);
    pthread_mutex_unlock(&client->lock);
    *is_done = code != GS_CLIENT_OK || region || !bytes;
    return code;
}

/* Under staging.lock. The next chunk, once its last copy is done. */
static gs_client_code take_chunk(gs_client *client, uint32_t *chunk) {
    if (!client->staging.memory) {
        void *memory;
        gs_client_code code =
            host_malloc(client, (size_t)GS_LINK_CHUNKS * CHUNK_BYTES, &memory, &client->staging.region);
        if (code != GS_CLIENT_OK)
            return code;
        client->staging.memory = memory;
    }
    *chunk = client->staging.next++ % GS_LINK_CHUNKS;
    struct gs_link_use *use = &client->staging.uses[*chunk];
    return use->command ? wait_command(client, use->stream, use->command) : GS_CLIENT_OK;
}

static gs_client_code put_chunk(gs_client *client, bool in, uint32_t stream, gs_client_memory memory, uint32_t chunk,
                                size_t bytes) {
    pthread_mutex_lock(&client->lock);
    gs_client_code code =
        put_copy(client, in, stream, memory, client->staging.region, (uint64_t)chunk * CHUNK_BYTES, bytes);
    client->staging.uses[chunk] = (struct gs_link_use){.stream = stream, .command = client->last[stream]};
    pthread_mutex_unlock(&client->lock);
    return code;
}

static size_t chunk_part(size_t left) {
    return left < CHUNK_BYTES ? left : CHUNK_BYTES;
}

static gs_client_code stage_in(gs_client *client, uint32_t stream, gs_client_memory to, const unsigned char *from,
                               size_t bytes) {
    gs_client_code code = GS_CLIENT_OK;
    for (size_t at = 0, part; at < bytes && code == GS_CLIENT_OK; at += part) {
        uint32_t chunk;
        part = chunk_part(bytes - at);
        code = take_chunk(client, &chunk);
        if (code != GS_CLIENT_OK)
            break;
        memcpy(client->staging.memory + (size_t)chunk * CHUNK_BYTES, from + at, part);
        code = put_chunk(client, true, stream, to + at, chunk, part);
    }
    return code;
}

/* The device fills chunks ahead while this side empties others. */
static gs_client_code stage_out(gs_client *client, uint32_t stream, unsigned char *to, gs_client_memory from,
                                size_t bytes) {
    gs_client_code code = GS_CLIENT_OK;
    uint32_t chunks[GS_LINK_CHUNKS];
    size_t requested = 0, emptied = 0, parts = (bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    while (emptied < parts && code == GS_CLIENT_OK) {
        if (requested < parts && requested - emptied < GS_LINK_CHUNKS) {
            size_t at = requested * CHUNK_BYTES;
            code = take_chunk(client, &chunks[requested % GS_LINK_CHUNKS]);
            if (code == GS_CLIENT_OK)
                code = put_chunk(client, false, stream, from + at, chunks[requested % GS_LINK_CHUNKS],
                                 chunk_part(bytes - at));
            requested++;
            continue;
        }
        uint32_t chunk = chunks[emptied % GS_LINK_CHUNKS];
        size_t at = emptied++ * CHUNK_BYTES;
        code = wait_command(client, stream, client->staging.uses[chunk].command);
        if (code == GS_CLIENT_OK)
            memcpy(to + at, client->staging.memory + (size_t)chunk * CHUNK_BYTES, chunk_part(bytes - at));
    }
    return code == GS_CLIENT_OK ? stream_error(client, stream) : code;
}

gs_client_code gs_client_copy_in(gs_client *client, uint32_t stream, gs_client_memory to, const void *from,
                                 size_t bytes) {
    bool is_done;
    gs_client_code code = copy_shared(client, true, stream, to, from, bytes, &is_done);
    if (is_done)
        return code;
    pthread_mutex_lock(&client->staging.lock);
    code = stage_in(client, stream, to, from, bytes);
    pthread_mutex_unlock(&client->staging.lock);
    return code;
}

gs_client_code gs_client_copy_out(gs_client *client, uint32_t stream, void *to, gs_client_memory from, size_t bytes) {
    bool is_done;
    gs_client_code code = copy_shared(client, false, stream, from, to, bytes, &is_done);
    if (is_done)
        return code;
    pthread_mutex_lock(&client->staging.lock);
    code = stage_out(client, stream, to, from, bytes);
    pthread_mutex_unlock(&client->staging.lock);
    return code;
}

gs_client_code gs_client_fill(gs_client *client, uint32_t stream, gs_client_memory to, uint8_t value, size_t bytes) {
    gs_client_code code = gs_link_check_stream(stream);
    if (code != GS_CLIENT_OK)
        return code;
    gs_wire_fill command = {.head = {.command = GS_WIRE_FILL, .stream = stream},
                            .memory = handle_of(to),
                            .value = value,
                            .at = offset_of(to),
                            .bytes = bytes};
    pthread_mutex_lock(&client->lock);
    code = check_memory(client, to, bytes);
    if (code == GS_CLIENT_OK && bytes)
        code = gs_link_put_stream(client, &command, sizeof command);
    pthread_mutex_unlock(&client->lock);
    return code;
}

/* ---- kernels ---- */

/* Size of the file in which a source is sent. */
static size_t source_bytes(const gs_client_source *source, const char *name, size_t size) {
    size_t bytes = strlen(name) + 1 + size;
    for (uint32_t i = 0; i < source->option_count; i++)
        bytes += strlen(source->options[i]) + 1;
    for (uint32_t i = 0; i < source->kernel_count; i++)
        bytes += strlen(source->kernels[i]) + 1;
    return bytes;
}

static bool write_all(int fd, const void *bytes, size_t count) {
    for (const unsigned char *at = bytes; count;) {
        ssize_t wrote = write(fd, at, count);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return false;
        at += wrote;
        count -= (size_t)wrote;
    }
    return true;
}

static bool write_source(int fd, const gs_client_source *source, const char *name, size_t size) {
    bool is_good = write_all(fd, name, strlen(name) + 1);
    for (uint32_t i = 0; i < source->option_count && is_good; i++)
        is_good = write_all(fd, source->options[i], strlen(source->options[i]) + 1);
    for (uint32_t i = 0; i < source->kernel_count && is_good; i++)
        is_good = write_all(fd, source->kernels[i], strlen(source->kernels[i]) + 1);
    return is_good && write_all(fd, source->text, size);
}

static gs_client_code check_source(const gs_client_source *source) {
    if (!source->kernel_count)
        return gs_link_fail(GS_CLIENT_INVALID, "a source needs the name of at least one kernel");
    if (source->kernel_count > GS_WIRE_SOURCE_KERNELS || source->option_count > GS_WIRE_SOURCE_OPTIONS)
        return gs_link_fail(GS_CLIENT_INVALID, "at most %d kernels and %d options can be requested",
                            GS_WIRE_SOURCE_KERNELS, GS_WIRE_SOURCE_OPTIONS);
    for (uint32_t i = 0; i < source->option_count; i++)
        if (strncmp(source->options[i], "-D", 2) != 0)
            return gs_link_fail(GS_CLIENT_INVALID, "an option must begin with -D, not \"%.40s\"", source->options[i]);
    return GS_CLIENT_OK;
}

gs_client_code gs_client_load(gs_client *client, const gs_client_source *source, uint32_t *module) {
    const char *name = source->name ? source->name : "source.cu";
    size_t size = source->size ? source->size : strlen(source->text);
    *module = 0;
    gs_client_code code = check_source(source);
    if (code != GS_CLIENT_OK)
        return code;
    gs_wire_load command = {.head = {.command = GS_WIRE_LOAD},
                            .bytes = source_bytes(source, name, size),
                            .options = source->option_count,
                            .kernels = source->kernel_count};
    if (command.bytes > GS_WIRE_SOURCE_BYTES)
        return gs_link_fail(GS_CLIENT_INVALID, "a source may have at most %d bytes", GS_WIRE_SOURCE_BYTES);
    int fd = sized_file(command.bytes);
    if (fd < 0 || !write_source(fd, source, name, size) || !seal_file(fd, F_SEAL_WRITE)) {
        code = gs_link_fail_system("write the source for the daemon");
        if (fd >= 0)
            close(fd);
        return code;
    }
    const struct creation creation = CREATION(&command, module, fd);
    code = create_handle(client, &client->modules, command.kernels, &creation, "modules");
    close(fd);
    if (code == GS_CLIENT_OK)
        *module = command.module;
    return code;
}

gs_client_code gs_client_unload(gs_client *client, uint32_t module) {
    pthread_mutex_lock(&client->lock);
    gs_client_code code = gs_link_find(&client->modules, module)
                              ? free_handle(client, &client->modules, GS_WIRE_UNLOAD, module)
                              : gs_link_fail(GS_CLIENT_INVALID, "unknown module %u", module);
    pthread_mutex_unlock(&client->lock);
    return code;
}

/* ---- launches ---- */

struct packed {
    gs_wire_launch launch;
    alignas(8) unsigned char arguments[GS_WIRE_MOST_BYTES - sizeof(gs_wire_launch)];
};

/* Under the lock. */
static gs_client_code pack_argument(gs_client *client, const gs_client_argument *argument, unsigned char *into,
                                    size_t *at, size_t *values) {
    gs_wire_argument head = {.bytes = argument->bytes};
    uint64_t offset;
    const void *value = argument->value;
    if (argument->is_memory) {
        gs_client_memory memory;
        if (argument->bytes != sizeof memory)
            return gs_link_fail(GS_CLIENT_INVALID, "an address argument must have %zu bytes, not %u", sizeof memory,
                                argument->bytes);
        memcpy(&memory, value, sizeof memory);
        gs_client_code code = check_memory(client, memory, 1);
        if (code != GS_CLIENT_OK)
            return code;
        head.memory = handle_of(memory);
        offset = offset_of(memory);
        value = &offset;
    } else {
        *values += (argument->bytes + 7) & ~(size_t)7;
        if (!argument->bytes || argument->bytes > GS_CLIENT_VALUE_BYTES || *values > GS_CLIENT_VALUES_BYTES)
            return gs_link_fail(GS_CLIENT_INVALID, "an argument must have 1 to %d bytes, all together at most %d",
                                GS_CLIENT_VALUE_BYTES, GS_CLIENT_VALUES_BYTES);
    }
    memcpy(into + *at, &head, sizeof head);
    memcpy(into + *at + sizeof head, value, head.bytes);
    *at += sizeof head + ((head.bytes + 7) & ~(size_t)7);
    return GS_CLIENT_OK;
}

static gs_client_code pack_arguments(gs_client *client, const gs_client_launch *launch, struct packed *packed,
                                     size_t *bytes) {
    const struct gs_link_slot *module = gs_link_find(&client->modules, launch->module);
    if (!module || launch->kernel >= module->bytes)
        return gs_link_fail(GS_CLIENT_INVALID, "unknown kernel %u of module %u", launch->kernel, launch->module);
    if (launch->argument_count > GS_CLIENT_ARGUMENTS)
        return gs_link_fail(GS_CLIENT_INVALID, "a kernel may have at most %d arguments", GS_CLIENT_ARGUMENTS);
    size_t at = 0, values = 0;
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        gs_client_code code = pack_argument(client, &launch->arguments[i], packed->arguments, &at, &values);
        if (code != GS_CLIENT_OK)
            return code;
    }
    *bytes = sizeof packed->launch + at;
    return GS_CLIENT_OK;
}

/* The limits of CUDA, and 2^46 blocks. A launch within them may still not fit on an SM: its stream says so. */
static gs_client_code check_shape(const uint32_t *grid, const uint32_t *block) {
    static const uint32_t most_grid[3] = {INT32_MAX, 65535, 65535}, most_block[3] = {1024, 1024, 64};
    const uint64_t most_blocks = (uint64_t)1 << 46;
    uint64_t blocks = 1, threads = 1;
    bool is_good = true;
    for (int i = 0; i < 3; i++) {
        is_good = is_good && grid[i] <= most_grid[i] && block[i] <= most_block[i] && grid[i] <= most_blocks / blocks;
        blocks *= is_good ? grid[i] : 1;
        threads *= is_good ? block[i] : 1;
    }
    if (is_good && threads <= 1024)
        return GS_CLIENT_OK;
    return gs_link_fail(GS_CLIENT_INVALID,
                        "invalid grid (%u, %u, %u) of blocks (%u, %u, %u): a grid may have 2147483647 x 65535 x 65535 "
                        "blocks, together at most 2^46; a block 1024 x 1024 x 64 threads, together at most 1024",
                        grid[0], grid[1], grid[2], block[0], block[1], block[2]);
}

gs_client_code gs_client_start(gs_client *client, uint32_t stream, const gs_client_launch *launch) {
    struct packed packed;
    size_t bytes = 0;
    gs_client_code code = gs_link_check_stream(stream);
    if (code != GS_CLIENT_OK)
        return code;
    packed.launch = (gs_wire_launch){.head = {.command = GS_WIRE_LAUNCH, .stream = stream},
                                     .module = launch->module,
                                     .kernel = launch->kernel,
                                     .shared_bytes = launch->shared_bytes,
                                     .arguments = launch->argument_count};
    for (int i = 0; i < 3; i++) {
        packed.launch.grid[i] = launch->grid[i] ? launch->grid[i] : 1;
        packed.launch.block[i] = launch->block[i] ? launch->block[i] : 1;
    }
    code = check_shape(packed.launch.grid, packed.launch.block);
    if (code != GS_CLIENT_OK)
        return code;
    pthread_mutex_lock(&client->lock);
    code = pack_arguments(client, launch, &packed, &bytes);
    if (code == GS_CLIENT_OK)
        code = gs_link_put_stream(client, &packed, bytes);
    pthread_mutex_unlock(&client->lock);
    return code;
}

gs_client_code gs_client_wait(gs_client *client, uint32_t stream) {
    gs_client_code code = gs_link_check_stream(stream);
    if (code == GS_CLIENT_OK)
        code = wait_command(client, stream, stream_last(client, stream));
    if (code == GS_CLIENT_OK)
        code = gs_link_end_code(client);
    return code == GS_CLIENT_OK ? stream_error(client, stream) : code;
}

gs_client_code gs_client_wait_all(gs_client *client) {
    gs_client_code code = GS_CLIENT_OK;
    for (uint32_t i = 0; i < GS_CLIENT_STREAMS; i++) {
        gs_client_code found = gs_client_wait(client, i);
        code = code == GS_CLIENT_OK ? found : code;
    }
    return code;
}

/* ---- events ---- */

gs_client_code gs_client_event(gs_client *client, uint32_t stream, uint32_t event) {
    gs_client_code code = gs_link_check_stream(stream);
    if (code == GS_CLIENT_OK && event >= GS_CLIENT_EVENTS)
        code = gs_link_fail(GS_CLIENT_INVALID, "unknown event %u: the last is %d", event, GS_CLIENT_EVENTS - 1);
    if (code != GS_CLIENT_OK)
        return code;
    gs_wire_record command = {.head = {.command = GS_WIRE_EVENT, .stream = stream}, .event = event};
    pthread_mutex_lock(&client->lock);
    code = gs_link_put_stream(client, &command, sizeof command);
    if (code == GS_CLIENT_OK)
        client->recorded[event] = client->commands;
    pthread_mutex_unlock(&client->lock);
    return code;
}

gs_client_code gs_client_event_wait(gs_client *client, uint32_t event) {
    if (event >= GS_CLIENT_EVENTS)
        return gs_link_fail(GS_CLIENT_INVALID, "unknown event %u: the last is %d", event, GS_CLIENT_EVENTS - 1);
    pthread_mutex_lock(&client->lock);
    uint64_t number = client->recorded[event];
    pthread_mutex_unlock(&client->lock);
    if (!number)
        return gs_link_fail(GS_CLIENT_INVALID, "event %u was never recorded", event);
    return gs_link_wait(client,
                        &(struct gs_link_condition){.counter = &client->page->events[event].command, .least = number});
}

gs_client_code gs_client_elapsed(gs_client *client, uint32_t from, uint32_t to, int64_t *nanoseconds) {
    *nanoseconds = 0;
    gs_client_code code = gs_client_event_wait(client, from);
    if (code == GS_CLIENT_OK)
        code = gs_client_event_wait(client, to);
    if (code == GS_CLIENT_OK)
        *nanoseconds =
            atomic_load(&client->page->events[to].time_ns) - atomic_load(&client->page->events[from].time_ns);
    return code;
}
