/*
 * trust.c: whether only root and this user can change the file that a path names.
 *
 * A user who can write to a folder can replace the files in it. So each folder on the way to a file is checked, and
 * each symbolic link, which is followed here step by step. A folder with the sticky bit, such as /tmp, may be writable
 * by others, because they cannot replace files of other owners; then the file or folder that the path names in it must
 * exist.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LINKS = 40, OTHERS_WRITE = S_IWGRP | S_IWOTH };

struct walk {
    const char *path;        /* as it was given, for errors */
    char at[PATH_MAX];       /* where the walk is: an absolute path without symbolic links; "": the root */
    char rest[2 * PATH_MAX]; /* what is left of the path */
    int links;
    bool parent_is_shared; /* others can make files in the folder `at` */
};

static gs_code fail_too_long(const struct walk *walk, gs_error *error) {
    return gs_fail(error, GS_E_USAGE, "%.200s: the path is too long, or has too many symbolic links", walk->path);
}

static gs_code check_owner(const struct walk *walk, const struct stat *status, gs_error *error) {
    if (status->st_uid == 0 || status->st_uid == geteuid())
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "%.200s cannot be trusted: %.200s belongs to user %u, not to user %u or root",
                   walk->path, walk->at[0] ? walk->at : "/", (unsigned)status->st_uid, (unsigned)geteuid());
}

/* The last component must not be writable by others at all. */
static gs_code check_mode(struct walk *walk, const struct stat *status, gs_error *error) {
    bool is_last = !walk->rest[strspn(walk->rest, "/.")];
    bool is_sticky = S_ISDIR(status->st_mode) && status->st_mode & S_ISVTX;
    walk->parent_is_shared = status->st_mode & OTHERS_WRITE;
    if (!walk->parent_is_shared || (is_sticky && !is_last))
        return GS_OK;
    return gs_fail(error, GS_E_USAGE,
                   "%.200s cannot be trusted: %.200s can be written by others (mode %04o of user %u)", walk->path,
                   walk->at[0] ? walk->at : "/", (unsigned)status->st_mode & 07777, (unsigned)status->st_uid);
}

/* Moves the next component from the rest to `at`. False: the rest is empty. */
static bool next_component(struct walk *walk, bool *is_too_long) {
    size_t skip = strspn(walk->rest, "/"), length = strcspn(walk->rest + skip, "/");
    char name[NAME_MAX + 1];
    *is_too_long = length > NAME_MAX || strlen(walk->at) + length + 2 > sizeof walk->at;
    if (!length || *is_too_long)
        return false;
    memcpy(name, walk->rest + skip, length);
    name[length] = '\0';
    memmove(walk->rest, walk->rest + skip + length, strlen(walk->rest + skip + length) + 1);
    if (strcmp(name, "..") == 0) {
        char *slash = strrchr(walk->at, '/');
        *(slash ? slash : walk->at) = '\0';
    } else if (strcmp(name, ".") != 0) {
        snprintf(walk->at + strlen(walk->at), sizeof walk->at - strlen(walk->at), "/%s", name);
    }
    return true;
}

/* Puts the target of the link at `at` before the rest. */
static gs_code follow_link(struct walk *walk, gs_error *error) {
    char target[PATH_MAX], rest[sizeof walk->rest];
    ssize_t length = readlink(walk->at, target, sizeof target - 1);
    if (length <= 0)
        return gs_fail_system(error, "read the link", walk->at);
    target[length] = '\0';
    snprintf(rest, sizeof rest, "%s", walk->rest);
    if (++walk->links > MOST_LINKS ||
        (size_t)snprintf(walk->rest, sizeof walk->rest, "%s/%s", target, rest) >= sizeof walk->rest)
        return fail_too_long(walk, error);
    *(target[0] == '/' ? walk->at : strrchr(walk->at, '/')) = '\0';
    return GS_OK;
}

/* A file that does not exist can be created only by users who may write to its folder. */
static gs_code check_missing(const struct walk *walk, gs_error *error) {
    if (errno != ENOENT)
        return gs_fail_system(error, "look at", walk->at);
    if (!walk->parent_is_shared)
        return GS_OK;
    return gs_fail(error, GS_E_USAGE, "%.200s cannot be trusted: others could make %.200s", walk->path, walk->at);
}

static gs_code check_step(struct walk *walk, bool *is_missing, gs_error *error) {
    struct stat status;
    *is_missing = lstat(walk->at[0] ? walk->at : "/", &status) != 0;
    if (*is_missing)
        return check_missing(walk, error);
    gs_code code = check_owner(walk, &status, error);
    if (code != GS_OK)
        return code;
    return S_ISLNK(status.st_mode) ? follow_link(walk, error) : check_mode(walk, &status, error);
}

gs_code gs_check_trusted_path(const char *path, gs_error *error) {
    struct walk walk = {.path = path};
    bool is_too_long = false, is_missing = false;
    char here[PATH_MAX] = "";
    if (path[0] != '/' && !getcwd(here, sizeof here))
        return gs_fail_system(error, "find", "the current folder");
    if ((size_t)snprintf(walk.rest, sizeof walk.rest, "%s/%s", here, path) >= sizeof walk.rest)
        return fail_too_long(&walk, error);
    gs_code code = check_step(&walk, &is_missing, error);
    while (code == GS_OK && !is_missing && next_component(&walk, &is_too_long))
        code = check_step(&walk, &is_missing, error);
    return is_too_long ? fail_too_long(&walk, error) : code;
}
