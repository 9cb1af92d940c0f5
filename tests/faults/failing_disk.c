/* A file layer that fails on request, loaded before libc: from the n-th change below a folder on, each has an error.
 *
 * disk_arm(folder, n, error, is_once)   n = 0 fails nothing and counts; disk_count() gives the changes so far.
 * Reading always works, as on a disk that is full, read-only or has one bad sector.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char below[PATH_MAX];
static long changes, first;
static int code, once;

void disk_arm(const char *folder, long n, int error, int is_once) {
    snprintf(below, sizeof below, "%s/", folder);
    changes = 0; first = n; code = error; once = is_once;
}

long disk_count(void) { return changes; }

/* Whether this change fails; errno is set then. */
static int fails(const char *path) {
    char whole[PATH_MAX * 2], here[PATH_MAX];
    if (!below[0] || !path) return 0;
    if (path[0] != '/' && getcwd(here, sizeof here)) {
        snprintf(whole, sizeof whole, "%s/%s", here, path);
        path = whole;
    }
    if (strncmp(path, below, strlen(below))) return 0;
    changes++;
    if (!first || changes < first || (once && changes > first)) return 0;
    errno = code;
    return 1;
}

static int fails_fd(int fd) {
    char name[64], path[PATH_MAX];
    ssize_t length;
    if (!below[0]) return 0;
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    if ((length = readlink(name, path, sizeof path - 1)) < 0) return 0;
    path[length] = 0;
    return fails(path);
}

#define REAL(type, name, ...) static type (*real)(__VA_ARGS__); if (!real) real = dlsym(RTLD_NEXT, #name)
#define BY_FD(type, name, list, ...) type name list { \
    REAL(type, name, __VA_ARGS__); if (fails_fd(fd)) return -1;
#define BY_PATH(name, list, ...) int name list { \
    REAL(int, name, __VA_ARGS__); if (fails(path)) return -1;

BY_FD(ssize_t, write, (int fd, const void *data, size_t n), int, const void *, size_t) return real(fd, data, n); }
BY_FD(ssize_t, pwrite, (int fd, const void *data, size_t n, off_t at), int, const void *, size_t, off_t)
    return real(fd, data, n, at); }
BY_FD(ssize_t, pwrite64, (int fd, const void *data, size_t n, off64_t at), int, const void *, size_t, off64_t)
    return real(fd, data, n, at); }
BY_FD(int, fsync, (int fd), int) return real(fd); }
BY_FD(int, fdatasync, (int fd), int) return real(fd); }
BY_FD(int, ftruncate, (int fd, off_t length), int, off_t) return real(fd, length); }
BY_FD(int, ftruncate64, (int fd, off64_t length), int, off64_t) return real(fd, length); }
BY_PATH(rename, (const char *path, const char *to), const char *, const char *) return real(path, to); }
BY_PATH(link, (const char *path, const char *to), const char *, const char *) return real(path, to); }
BY_PATH(unlink, (const char *path), const char *) return real(path); }
BY_PATH(mkdir, (const char *path, mode_t mode), const char *, mode_t) return real(path, mode); }

/* Opening counts as a change where it makes or empties a file. */
#define OPENS(name) int name(const char *path, int flags, ...) { \
    REAL(int, name, const char *, int, ...); \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); } \
    if ((flags & (O_CREAT | O_TRUNC)) && fails(path)) return -1; \
    return real(path, flags, mode); }
OPENS(open)
OPENS(open64)
