/* Stands between a process and the C library, and counts the calls that change what lies below a
 * directory: creating, writing, mapping, allocating, syncing, renaming, removing. At a call that is
 * asked for it kills the process, before, after or in the middle; or fails the call; or writes
 * every call down for a model of power loss. `shim.py` compiles and drives it (LD_PRELOAD).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#undef open
#undef open64
#undef openat
#undef openat64
#undef creat
#undef creat64
#undef pwrite
#undef pwrite64
#undef ftruncate
#undef ftruncate64
#undef posix_fallocate
#undef posix_fallocate64
#undef mmap
#undef mmap64

enum { COUNT = 0, KILL_BEFORE = 1, KILL_AFTER = 2, TEAR = 3, FAIL = 4, SHORT = 5 };
enum { OPEN = 1, WRITE, TRUNCATE, ALLOCATE, MAP, PUNCH, SYNC_FILE, SYNC_ALL, RENAME, UNLINK, MKDIR,
       RMDIR, SYNC_MAP };

#define MOST_FILES 65536
#define MOST_PATH 4096

static char *paths[MOST_FILES]; /* of open files below the directory */
static char prefix[MOST_PATH];
static size_t prefix_length;
static int armed, mode, error_number, sticky, trace = -1;
static long chosen;
static atomic_long counted, failed;

#define REAL(type, name, ...)                                                                     \
    static type (*real)(__VA_ARGS__);                                                             \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

void shim_arm(const char *below, int what, long at, int code, int keeps, int trace_file) {
    strncpy(prefix, below, MOST_PATH - 1);
    prefix_length = strlen(prefix);
    mode = what, chosen = at, error_number = code, sticky = keeps, trace = trace_file;
    counted = 0;
    failed = 0;
    armed = 1;
}

long shim_disarm(void) {
    armed = 0;
    return counted;
}

long shim_failed(void) { return failed; }

static int is_below(const char *path) {
    return armed && path && strncmp(path, prefix, prefix_length) == 0;
}

static const char *path_of(int file) {
    return armed && file >= 0 && file < MOST_FILES ? paths[file] : NULL;
}

/* The whole path of a name beside a directory's file, when it is below the prefix. */
static const char *whole(int directory, const char *name, char *buffer) {
    if (!armed || !name) return NULL;
    if (name[0] == '/') return is_below(name) ? name : NULL;
    if (directory == AT_FDCWD) return NULL;
    const char *parent = path_of(directory);
    if (!parent || snprintf(buffer, MOST_PATH, "%s/%s", parent, name) >= MOST_PATH) return NULL;
    return buffer;
}

static void write_down(int kind, const char *path, const char *other, int64_t offset,
                       const void *data, uint64_t size, int64_t flags) {
    if (trace < 0) return;
    uint64_t head[6] = {(uint64_t)kind, path ? strlen(path) : 0, other ? strlen(other) : 0,
                        (uint64_t)offset, size, (uint64_t)flags};
    struct iovec parts[4] = {{head, sizeof head},
                             {(void *)path, head[1]},
                             {(void *)other, head[2]},
                             {(void *)data, data ? size : 0}};
    if (!data) head[4] = 0, parts[3].iov_len = 0;
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (real(trace, parts, 4) < 0) abort();
}

/* Counts one call. Gives 1 when it is to fail; kills when it is its turn. */
static int enter(void) {
    long number = ++counted;
    int is_turn = number == chosen;
    if (is_turn && mode == KILL_BEFORE) kill(getpid(), SIGKILL);
    if ((mode == FAIL || mode == SHORT) && (is_turn || (sticky && number > chosen && chosen > 0))) {
        failed++;
        return 1;
    }
    return is_turn ? -1 : 0;
}

static void leave(int turn) {
    if (turn == -1 && (mode == KILL_AFTER || mode == TEAR)) kill(getpid(), SIGKILL);
}

#define CHANGING (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)

static int opened(int directory, const char *name, int flags, mode_t permissions) {
    REAL(int, "openat", int, const char *, int, ...);
    char buffer[MOST_PATH];
    const char *path = whole(directory, name, buffer);
    int counts = path && (flags & CHANGING), turn = 0;
    if (counts) {
        turn = enter();
        if (turn == 1) {
            errno = error_number;
            return -1;
        }
    }
    int existed = counts && trace >= 0 ? access(path, F_OK) == 0 : 0;
    int file = real(directory, name, flags, permissions);
    if (file >= 0 && file < MOST_FILES) {
        free(paths[file]);
        paths[file] = path ? strdup(path) : NULL;
        if (counts && (flags & (O_CREAT | O_TRUNC)) && (!existed || (flags & O_TRUNC)))
            write_down(OPEN, path, NULL, 0, NULL, 0, existed);
    }
    if (counts) leave(turn);
    return file;
}

#define OPENER(name, ...)                                                                         \
    mode_t permissions = 0;                                                                       \
    if (flags & (O_CREAT | O_TMPFILE)) {                                                          \
        va_list rest;                                                                             \
        va_start(rest, flags);                                                                    \
        permissions = va_arg(rest, mode_t);                                                       \
        va_end(rest);                                                                             \
    }                                                                                             \
    return opened(__VA_ARGS__, flags, permissions)

int open(const char *name, int flags, ...) { OPENER(name, AT_FDCWD, name); }
int open64(const char *name, int flags, ...) { OPENER(name, AT_FDCWD, name); }
int openat(int directory, const char *name, int flags, ...) { OPENER(name, directory, name); }
int openat64(int directory, const char *name, int flags, ...) { OPENER(name, directory, name); }
int creat(const char *name, mode_t permissions) {
    return opened(AT_FDCWD, name, O_CREAT | O_WRONLY | O_TRUNC, permissions);
}
int creat64(const char *name, mode_t permissions) { return creat(name, permissions); }

int close(int file) {
    REAL(int, "close", int);
    if (file >= 0 && file < MOST_FILES && paths[file]) {
        char *path = paths[file];
        paths[file] = NULL;
        free(path);
    }
    return real(file);
}

static ssize_t written(int file, const void *data, size_t size, off_t offset, int positioned) {
    REAL(ssize_t, "pwrite", int, const void *, size_t, off_t);
    static ssize_t (*plain)(int, const void *, size_t);
    if (!plain) plain = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    const char *path = path_of(file);
    int turn = 0;
    if (path) {
        turn = enter();
        if (turn == 1 && (mode == FAIL || size < 2)) {
            errno = error_number;
            return -1;
        }
        if (turn == 1 || (turn == -1 && mode == TEAR)) size = size > 1 ? size / 2 : size;
        if (!positioned && trace >= 0) offset = lseek(file, 0, SEEK_CUR);
    }
    ssize_t done = positioned ? real(file, data, size, offset) : plain(file, data, size);
    if (path) {
        if (done > 0) write_down(WRITE, path, NULL, offset, data, (uint64_t)done, 0);
        leave(turn);
    }
    return done;
}

ssize_t write(int file, const void *data, size_t size) {
    return written(file, data, size, 0, 0);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    return written(file, data, size, offset, 1);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) {
    return written(file, data, size, offset, 1);
}
ssize_t writev(int file, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    if (!path_of(file)) return real(file, parts, count);
    ssize_t total = 0;
    for (int part = 0; part < count; part++) {
        ssize_t done = written(file, parts[part].iov_base, parts[part].iov_len, 0, 0);
        if (done < 0) return total ? total : -1;
        total += done;
    }
    return total;
}

/* A call on a file or path that fails by -1, or by its number where it gives one. */
#define SIMPLE(path, failure, record, call)                                                       \
    int turn = 0;                                                                                 \
    const char *below = path;                                                                     \
    if (below) {                                                                                  \
        turn = enter();                                                                           \
        if (turn == 1) {                                                                          \
            errno = error_number;                                                                 \
            return failure;                                                                       \
        }                                                                                         \
    }                                                                                             \
    int result = call;                                                                            \
    if (below) {                                                                                  \
        if (result == 0) record;                                                                  \
        leave(turn);                                                                              \
    }                                                                                             \
    return result

int ftruncate(int file, off_t size) {
    REAL(int, "ftruncate", int, off_t);
    SIMPLE(path_of(file), -1, write_down(TRUNCATE, below, NULL, size, NULL, 0, 0),
           real(file, size));
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }

int posix_fallocate(int file, off_t offset, off_t size) {
    REAL(int, "posix_fallocate", int, off_t, off_t);
    SIMPLE(path_of(file), error_number,
           write_down(ALLOCATE, below, NULL, offset, NULL, 0, size), real(file, offset, size));
}
int posix_fallocate64(int file, off64_t offset, off64_t size) {
    return posix_fallocate(file, offset, size);
}

int fsync(int file) {
    REAL(int, "fsync", int);
    SIMPLE(path_of(file), -1, write_down(SYNC_FILE, below, NULL, 0, NULL, 0, 0), real(file));
}
int fdatasync(int file) {
    REAL(int, "fdatasync", int);
    SIMPLE(path_of(file), -1, write_down(SYNC_FILE, below, NULL, 0, NULL, 0, 0), real(file));
}
int syncfs(int file) {
    REAL(int, "syncfs", int);
    SIMPLE(path_of(file), -1, write_down(SYNC_ALL, below, NULL, 0, NULL, 0, 0), real(file));
}

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    REAL(void *, "mmap", void *, size_t, int, int, int, off_t);
    int counts = path_of(file) && (flags & MAP_SHARED) && (protection & PROT_WRITE), turn = 0;
    if (counts) {
        turn = enter();
        if (turn == 1) {
            errno = error_number;
            return MAP_FAILED;
        }
    }
    void *result = real(address, size, protection, flags, file, offset);
    if (counts) {
        write_down(MAP, path_of(file), NULL, offset, NULL, 0, 0);
        leave(turn);
    }
    return result;
}
void *mmap64(void *address, size_t size, int protection, int flags, int file, off64_t offset) {
    return mmap(address, size, protection, flags, file, offset);
}

int madvise(void *address, size_t size, int advice) {
    REAL(int, "madvise", void *, size_t, int);
    SIMPLE(armed && advice == MADV_REMOVE ? prefix : NULL, -1, (void)0,
           real(address, size, advice));
}

int msync(void *address, size_t size, int flags) {
    REAL(int, "msync", void *, size_t, int);
    SIMPLE(armed ? prefix : NULL, -1, (void)0, real(address, size, flags));
}

int renameat(int from, const char *old, int to, const char *fresh) {
    REAL(int, "renameat", int, const char *, int, const char *);
    char one[MOST_PATH], two[MOST_PATH];
    const char *source = whole(from, old, one), *target = whole(to, fresh, two);
    SIMPLE(source ? source : target, -1,
           write_down(RENAME, source ? source : old, target ? target : fresh, 0, NULL, 0, 0),
           real(from, old, to, fresh));
}
int rename(const char *old, const char *fresh) {
    return renameat(AT_FDCWD, old, AT_FDCWD, fresh);
}

int unlinkat(int directory, const char *name, int flags) {
    REAL(int, "unlinkat", int, const char *, int);
    char buffer[MOST_PATH];
    SIMPLE(whole(directory, name, buffer), -1,
           write_down(flags & AT_REMOVEDIR ? RMDIR : UNLINK, below, NULL, 0, NULL, 0, 0),
           real(directory, name, flags));
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }

int mkdirat(int directory, const char *name, mode_t permissions) {
    REAL(int, "mkdirat", int, const char *, mode_t);
    char buffer[MOST_PATH];
    SIMPLE(whole(directory, name, buffer), -1, write_down(MKDIR, below, NULL, 0, NULL, 0, 0),
           real(directory, name, permissions));
}
int mkdir(const char *name, mode_t permissions) {
    return mkdirat(AT_FDCWD, name, permissions);
}
