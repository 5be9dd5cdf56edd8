/* Counts, kills at, fails and records the calls that change files below one directory.
 *
 * Preloaded into a Python process. The plan lies in memory that the process shares with its
 * parent, so that counts outlive a SIGKILL. Calls on other files pass untouched.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { OFF, COUNT, KILL_BEFORE, KILL_AFTER, FAIL, FAIL_FROM };
enum { OPEN, WRITE, ALLOCATE, TRUNCATE, MAP, PUNCH, MSYNC, SYNC, SYNC_ALL, RENAME, LINK, UNLINK,
       RMDIR, MKDIR, COPY, SYMLINK };

struct plan {
    int64_t mode;     /* one of the modes above */
    int64_t nth;      /* call to act on, from 1 */
    int64_t code;     /* errno of failures */
    int64_t kinds;    /* bit mask of kinds that are counted; 0 for all */
    int64_t partial;  /* whether a failing write first writes half */
    int64_t trace;    /* descriptor to record to, -1 for none */
    int64_t count;    /* calls seen */
    int64_t fired;    /* kind of the call acted on, -1 before */
    char root[PATH_MAX];
};

struct record {  /* before the path, the second path and the data */
    int32_t kind, first, second, is_dir;
    int64_t inode, offset, bytes;
};

static struct plan unarmed = {.trace = -1};
static struct plan *plan = &unarmed;
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

#define MAPPINGS 1024
static struct { char *start; size_t size; char path[512]; } mappings[MAPPINGS];

void unienv_faults_share(void *shared) { plan = shared ? shared : &unarmed; }
long unienv_faults_size(void) { return sizeof(struct plan); }
void unienv_faults_forked(void) { pthread_mutex_init(&order, NULL); }

static int below(const char *path) {
    size_t size = strlen(plan->root);
    return size && !strncmp(path, plan->root, size) && (path[size] == '/' || path[size] == 0);
}

static int path_of(int fd, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, out, PATH_MAX - 1);
    if (size < 0) return 0;
    out[size] = 0;
    return 1;
}

static void absolute(int dir, const char *path, char *out) {
    out[0] = 0;
    if (!path) return;
    if (path[0] == '/') { snprintf(out, PATH_MAX, "%s", path); return; }
    char base[PATH_MAX];
    if (dir == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of(dir, base)) return;
    if ((size_t)snprintf(out, PATH_MAX, "%s/%s", base, path) >= PATH_MAX) out[0] = 0;
}

static int watches_path(int dir, const char *path, char *out) {
    int saved = errno;
    out[0] = 0;
    int found = plan->mode != OFF && (absolute(dir, path, out), below(out));
    errno = saved;
    return found;
}

static int watches_fd(int fd, char *out) {
    int saved = errno;
    out[0] = 0;
    int found = plan->mode != OFF && fd >= 0 && path_of(fd, out) && below(out);
    errno = saved;
    return found;
}

static void die(void) {
    for (;;) syscall(SYS_kill, getpid(), SIGKILL);
}

/* Numbers a call; its number when it is to fail, is negative. */
static int64_t enter(int kind) {
    if (plan->kinds && !(plan->kinds >> kind & 1)) return 0;
    int64_t number = __atomic_add_fetch(&plan->count, 1, __ATOMIC_SEQ_CST);
    int hit = number == plan->nth || (plan->mode == FAIL_FROM && number > plan->nth);
    if (!hit) return number;
    if (plan->mode >= KILL_BEFORE && (number == plan->nth)) plan->fired = kind;
    if (plan->mode == KILL_BEFORE) die();
    if (plan->mode == FAIL || plan->mode == FAIL_FROM) return -number;
    return number;
}

static void leave(int64_t number) {
    if (plan->mode == KILL_AFTER && number == plan->nth) die();
}

static void put(const void *data, size_t size) {
    const char *at = data;
    while (size) {
        ssize_t done = syscall(SYS_write, (int)plan->trace, at, size);
        if (done < 0) { if (errno == EINTR) continue; die(); }
        at += done;
        size -= done;
    }
}

static void trace(int kind, int fd, const char *path, const char *other, int64_t offset,
                  const void *data, int64_t bytes, int has_data) {
    if (plan->trace < 0) return;
    int saved = errno;
    struct stat found = {0};
    int known = fd >= 0 ? fstat(fd, &found) : lstat(other ? other : path, &found);
    if (known) memset(&found, 0, sizeof found);
    struct record head = {kind, strlen(path), other ? strlen(other) : 0, S_ISDIR(found.st_mode),
                          found.st_ino, offset, has_data ? bytes : -bytes - 1};
    put(&head, sizeof head);
    put(path, head.first);
    if (other) put(other, head.second);
    if (has_data) put(data, bytes);
    errno = saved;
}

static void hold(void) { if (plan->trace >= 0) pthread_mutex_lock(&order); }
static void drop(void) { if (plan->trace >= 0) pthread_mutex_unlock(&order); }

#define REAL(type, name, ...) \
    static type (*real)(__VA_ARGS__); \
    if (!real) real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

/* The call `run` counted as `kind`; `bad` is what failing returns, `record` what is recorded. */
#define WATCHED(type, kind, bad, run, good, record) \
    hold(); \
    int64_t number = enter(kind); \
    if (number < 0) { drop(); errno = plan->code; return bad; } \
    type result = run; \
    if (good) { record; } \
    drop(); \
    leave(number); \
    return result

#define OPEN_BODY(dir, call) \
    char full[PATH_MAX]; \
    if (!(flags & (O_CREAT | O_TRUNC | O_WRONLY | O_RDWR)) || !watches_path(dir, path, full)) \
        return call; \
    WATCHED(int, OPEN, -1, call, result >= 0, \
            trace(OPEN, result, full, NULL, flags, NULL, 0, 0))

#define MODE_OF_VARIADIC \
    mode_t mode = 0; \
    if (flags & (O_CREAT | O_TMPFILE)) { \
        va_list rest; va_start(rest, flags); mode = va_arg(rest, mode_t); va_end(rest); \
    }

#define DEFINE_OPEN(name) \
    int name(const char *path, int flags, ...) { \
        REAL(int, name, const char *, int, ...); MODE_OF_VARIADIC \
        OPEN_BODY(AT_FDCWD, real(path, flags, mode)); }
#define DEFINE_OPENAT(name) \
    int name(int dir, const char *path, int flags, ...) { \
        REAL(int, name, int, const char *, int, ...); MODE_OF_VARIADIC \
        OPEN_BODY(dir, real(dir, path, flags, mode)); }
#define DEFINE_CREAT(name) \
    int name(const char *path, mode_t mode) { \
        REAL(int, name, const char *, mode_t); int flags = O_CREAT | O_TRUNC | O_WRONLY; \
        OPEN_BODY(AT_FDCWD, real(path, mode)); }
#define DEFINE_OPEN_2(name) \
    int name(const char *path, int flags) { \
        REAL(int, name, const char *, int); OPEN_BODY(AT_FDCWD, real(path, flags)); }
#define DEFINE_OPENAT_2(name) \
    int name(int dir, const char *path, int flags) { \
        REAL(int, name, int, const char *, int); OPEN_BODY(dir, real(dir, path, flags)); }

DEFINE_OPEN(open)
DEFINE_OPEN(open64)
DEFINE_OPENAT(openat)
DEFINE_OPENAT(openat64)
DEFINE_CREAT(creat)
DEFINE_CREAT(creat64)
DEFINE_OPEN_2(__open_2)
DEFINE_OPEN_2(__open64_2)
DEFINE_OPENAT_2(__openat_2)
DEFINE_OPENAT_2(__openat64_2)

#define DEFINE_FOPEN(name) \
    FILE *name(const char *path, const char *how) { \
        REAL(FILE *, name, const char *, const char *); \
        char full[PATH_MAX]; \
        if (!strpbrk(how, "wa+") || !watches_path(AT_FDCWD, path, full)) return real(path, how); \
        int flags = O_CREAT | (strchr(how, 'w') ? O_TRUNC : 0); \
        WATCHED(FILE *, OPEN, NULL, real(path, how), result, \
                trace(OPEN, fileno(result), full, NULL, flags, NULL, 0, 0)); }
DEFINE_FOPEN(fopen)
DEFINE_FOPEN(fopen64)

/* A failing write may write half first, as a disk that fills up does. */
#define PARTIAL(size) (plan->partial && (size) > 1)

ssize_t write(int fd, const void *data, size_t size) {
    REAL(ssize_t, write, int, const void *, size_t);
    char full[PATH_MAX];
    if (!watches_fd(fd, full)) return real(fd, data, size);
    hold();
    int64_t number = enter(WRITE);
    if (number < 0 && !PARTIAL(size)) { drop(); errno = plan->code; return -1; }
    if (number < 0) size /= 2;
    int64_t offset = plan->trace >= 0 ? lseek(fd, 0, SEEK_CUR) : 0;
    ssize_t result = real(fd, data, size);
    if (result >= 0) trace(WRITE, fd, full, NULL, offset, data, result, 1);
    drop();
    leave(number);
    return result;
}

#define DEFINE_PWRITE(name, offset_type) \
    ssize_t name(int fd, const void *data, size_t size, offset_type offset) { \
        REAL(ssize_t, name, int, const void *, size_t, offset_type); \
        char full[PATH_MAX]; \
        if (!watches_fd(fd, full)) return real(fd, data, size, offset); \
        hold(); \
        int64_t number = enter(WRITE); \
        if (number < 0 && !PARTIAL(size)) { drop(); errno = plan->code; return -1; } \
        if (number < 0) size /= 2; \
        ssize_t result = real(fd, data, size, offset); \
        if (result >= 0) trace(WRITE, fd, full, NULL, offset, data, result, 1); \
        drop(); \
        leave(number); \
        return result; }
DEFINE_PWRITE(pwrite, off_t)
DEFINE_PWRITE(pwrite64, off64_t)

/* Vectors are recorded without data: the model refuses them, no code of ours uses them. */
#define DEFINE_VECTOR(name, parameters, types, ...) \
    ssize_t name parameters { \
        REAL(ssize_t, name, types); \
        char full[PATH_MAX]; \
        if (!watches_fd(fd, full)) return real(__VA_ARGS__); \
        WATCHED(ssize_t, WRITE, -1, real(__VA_ARGS__), result >= 0, \
                trace(COPY, fd, full, NULL, 0, NULL, result, 0)); }
#define LIST(...) __VA_ARGS__
DEFINE_VECTOR(writev, (int fd, const struct iovec *v, int n), LIST(int, const struct iovec *, int),
              fd, v, n)
DEFINE_VECTOR(pwritev, (int fd, const struct iovec *v, int n, off_t o),
              LIST(int, const struct iovec *, int, off_t), fd, v, n, o)
DEFINE_VECTOR(pwritev64, (int fd, const struct iovec *v, int n, off64_t o),
              LIST(int, const struct iovec *, int, off64_t), fd, v, n, o)
DEFINE_VECTOR(pwritev2, (int fd, const struct iovec *v, int n, off_t o, int f),
              LIST(int, const struct iovec *, int, off_t, int), fd, v, n, o, f)
DEFINE_VECTOR(pwritev64v2, (int fd, const struct iovec *v, int n, off64_t o, int f),
              LIST(int, const struct iovec *, int, off64_t, int), fd, v, n, o, f)
DEFINE_VECTOR(sendfile, (int fd, int from, off_t *o, size_t n), LIST(int, int, off_t *, size_t),
              fd, from, o, n)
DEFINE_VECTOR(sendfile64, (int fd, int from, off64_t *o, size_t n),
              LIST(int, int, off64_t *, size_t), fd, from, o, n)
DEFINE_VECTOR(copy_file_range,
              (int from, off64_t *a, int fd, off64_t *b, size_t n, unsigned f),
              LIST(int, off64_t *, int, off64_t *, size_t, unsigned), from, a, fd, b, n, f)

#define DEFINE_ALLOCATE(name, offset_type) \
    int name(int fd, offset_type offset, offset_type size) { \
        REAL(int, name, int, offset_type, offset_type); \
        char full[PATH_MAX]; \
        if (!watches_fd(fd, full)) return real(fd, offset, size); \
        WATCHED(int, ALLOCATE, (int)plan->code, real(fd, offset, size), result == 0, \
                trace(ALLOCATE, fd, full, NULL, offset, NULL, size, 0)); }
DEFINE_ALLOCATE(posix_fallocate, off_t)
DEFINE_ALLOCATE(posix_fallocate64, off64_t)

#define DEFINE_FALLOCATE(name, offset_type) \
    int name(int fd, int how, offset_type offset, offset_type size) { \
        REAL(int, name, int, int, offset_type, offset_type); \
        char full[PATH_MAX]; \
        if (!watches_fd(fd, full)) return real(fd, how, offset, size); \
        WATCHED(int, ALLOCATE, -1, real(fd, how, offset, size), result == 0, \
                trace(ALLOCATE, fd, full, NULL, offset, NULL, size, 0)); }
DEFINE_FALLOCATE(fallocate, off_t)
DEFINE_FALLOCATE(fallocate64, off64_t)

#define DEFINE_FTRUNCATE(name, offset_type) \
    int name(int fd, offset_type size) { \
        REAL(int, name, int, offset_type); \
        char full[PATH_MAX]; \
        if (!watches_fd(fd, full)) return real(fd, size); \
        WATCHED(int, TRUNCATE, -1, real(fd, size), result == 0, \
                trace(TRUNCATE, fd, full, NULL, size, NULL, 0, 0)); }
DEFINE_FTRUNCATE(ftruncate, off_t)
DEFINE_FTRUNCATE(ftruncate64, off64_t)

#define DEFINE_TRUNCATE(name, offset_type) \
    int name(const char *path, offset_type size) { \
        REAL(int, name, const char *, offset_type); \
        char full[PATH_MAX]; \
        if (!watches_path(AT_FDCWD, path, full)) return real(path, size); \
        WATCHED(int, TRUNCATE, -1, real(path, size), result == 0, \
                trace(TRUNCATE, -1, full, NULL, size, NULL, 0, 0)); }
DEFINE_TRUNCATE(truncate, off_t)
DEFINE_TRUNCATE(truncate64, off64_t)

static void remember(void *start, size_t size, const char *path) {
    for (int i = 0; i < MAPPINGS; i++) {
        char *expected = NULL;
        if (__atomic_compare_exchange_n(&mappings[i].start, &expected, (char *)start, 0,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            mappings[i].size = size;
            snprintf(mappings[i].path, sizeof mappings[i].path, "%s", path);
            return;
        }
    }
}

static const char *mapped(void *start) {
    if (plan->mode == OFF) return NULL;
    for (int i = 0; i < MAPPINGS; i++) {
        char *from = mappings[i].start;
        if (from && from <= (char *)start && (char *)start < from + mappings[i].size)
            return below(mappings[i].path) ? mappings[i].path : NULL;
    }
    return NULL;
}

#define DEFINE_MMAP(name, offset_type) \
    void *name(void *at, size_t size, int rights, int flags, int fd, offset_type offset) { \
        REAL(void *, name, void *, size_t, int, int, int, offset_type); \
        char full[PATH_MAX]; \
        if (!(rights & PROT_WRITE) || !(flags & MAP_SHARED) || (flags & MAP_ANONYMOUS) \
            || !watches_fd(fd, full)) \
            return real(at, size, rights, flags, fd, offset); \
        WATCHED(void *, MAP, MAP_FAILED, real(at, size, rights, flags, fd, offset), \
                result != MAP_FAILED, \
                (remember(result, size, full), \
                 trace(MAP, fd, full, NULL, offset, NULL, size, 0))); }
DEFINE_MMAP(mmap, off_t)
DEFINE_MMAP(mmap64, off64_t)

int munmap(void *start, size_t size) {
    REAL(int, munmap, void *, size_t);
    for (int i = 0; i < MAPPINGS; i++)
        if (mappings[i].start == start) mappings[i].start = NULL;
    return real(start, size);
}

int madvise(void *start, size_t size, int advice) {
    REAL(int, madvise, void *, size_t, int);
    const char *full = advice == MADV_REMOVE ? mapped(start) : NULL;
    if (!full) return real(start, size, advice);
    WATCHED(int, PUNCH, -1, real(start, size, advice), result == 0,
            trace(PUNCH, -1, full, NULL, 0, NULL, size, 0));
}

int msync(void *start, size_t size, int flags) {
    REAL(int, msync, void *, size_t, int);
    const char *full = mapped(start);
    if (!full) return real(start, size, flags);
    WATCHED(int, MSYNC, -1, real(start, size, flags), result == 0,
            trace(MSYNC, -1, full, NULL, 0, NULL, size, 0));
}

#define DEFINE_SYNC(name, kind) \
    int name(int fd) { \
        REAL(int, name, int); \
        char full[PATH_MAX]; \
        if (!watches_fd(fd, full)) return real(fd); \
        WATCHED(int, kind, -1, real(fd), result == 0, \
                trace(kind, fd, full, NULL, 0, NULL, 0, 0)); }
DEFINE_SYNC(fsync, SYNC)
DEFINE_SYNC(fdatasync, SYNC)
DEFINE_SYNC(syncfs, SYNC_ALL)

int sync_file_range(int fd, off64_t offset, off64_t size, unsigned flags) {
    REAL(int, sync_file_range, int, off64_t, off64_t, unsigned);
    char full[PATH_MAX];
    if (!watches_fd(fd, full)) return real(fd, offset, size, flags);
    WATCHED(int, MSYNC, -1, real(fd, offset, size, flags), result == 0,
            trace(MSYNC, fd, full, NULL, 0, NULL, size, 0));
}

#define TWO_PATHS(kind, from_dir, to_dir, call) \
    char full[PATH_MAX], other[PATH_MAX]; \
    int here = watches_path(from_dir, from, full); \
    if (!(watches_path(to_dir, to, other) | here)) return call; \
    WATCHED(int, kind, -1, call, result == 0, trace(kind, -1, full, other, 0, NULL, 0, 0))

int rename(const char *from, const char *to) {
    REAL(int, rename, const char *, const char *);
    TWO_PATHS(RENAME, AT_FDCWD, AT_FDCWD, real(from, to));
}
int renameat(int a, const char *from, int b, const char *to) {
    REAL(int, renameat, int, const char *, int, const char *);
    TWO_PATHS(RENAME, a, b, real(a, from, b, to));
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) {
    REAL(int, renameat2, int, const char *, int, const char *, unsigned);
    TWO_PATHS(RENAME, a, b, real(a, from, b, to, flags));
}
int link(const char *from, const char *to) {
    REAL(int, link, const char *, const char *);
    TWO_PATHS(LINK, AT_FDCWD, AT_FDCWD, real(from, to));
}
int linkat(int a, const char *from, int b, const char *to, int flags) {
    REAL(int, linkat, int, const char *, int, const char *, int);
    TWO_PATHS(LINK, a, b, real(a, from, b, to, flags));
}

#define ONE_PATH(kind, dir, call) \
    char full[PATH_MAX]; \
    if (!watches_path(dir, path, full)) return call; \
    WATCHED(int, kind, -1, call, result == 0, trace(kind, -1, full, NULL, 0, NULL, 0, 0))

int unlink(const char *path) {
    REAL(int, unlink, const char *);
    ONE_PATH(UNLINK, AT_FDCWD, real(path));
}
int unlinkat(int dir, const char *path, int flags) {
    REAL(int, unlinkat, int, const char *, int);
    int kind = flags & AT_REMOVEDIR ? RMDIR : UNLINK;
    ONE_PATH(kind, dir, real(dir, path, flags));
}
int remove(const char *path) {
    REAL(int, remove, const char *);
    ONE_PATH(UNLINK, AT_FDCWD, real(path));
}
int rmdir(const char *path) {
    REAL(int, rmdir, const char *);
    ONE_PATH(RMDIR, AT_FDCWD, real(path));
}
int mkdir(const char *path, mode_t mode) {
    REAL(int, mkdir, const char *, mode_t);
    ONE_PATH(MKDIR, AT_FDCWD, real(path, mode));
}
int mkdirat(int dir, const char *path, mode_t mode) {
    REAL(int, mkdirat, int, const char *, mode_t);
    ONE_PATH(MKDIR, dir, real(dir, path, mode));
}
int symlinkat(const char *target, int dir, const char *path) {
    REAL(int, symlinkat, const char *, int, const char *);
    ONE_PATH(SYMLINK, dir, real(target, dir, path));
}
int symlink(const char *target, const char *path) {
    REAL(int, symlink, const char *, const char *);
    ONE_PATH(SYMLINK, AT_FDCWD, real(target, path));
}
