/* A journal of what a process does to the files below one directory, for tests/kit/lossy_disk.py.
 *
 * Loaded with LD_PRELOAD. Every write, truncation, creation, removal, renaming and sync below LOSSY_DISK_ROOT is done as
 * usual and appended to LOSSY_DISK_JOURNAL, in the order in which it happened. Because each record is written by a system
 * call after the operation itself, the journal survives SIGKILL, and an operation that has no record is one that nothing
 * else followed. A sync has two records: only what precedes the first of them is on the disk after the second.
 *
 * A sync takes as long as LOSSY_DISK_CONTROL says, and puts nothing on the real disk, which is not what is tested. Of the
 * files whose path ends as it says, the sync that its number counts down to fails with EIO.
 *
 * A way to change a file that is not recorded ends the process: a test must not take such a file for unchanged.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind {
    CREATE = 1, WRITE, TRUNCATE, RENAME, UNLINK, MKDIR, RMDIR, SYNC_BEGIN, SYNC_END, SYNC_FAILED
};

struct record {
    uint32_t kind;
    uint32_t path_length;
    uint64_t inode;
    uint64_t offset; /* of a write; new length of a truncation; number of a sync */
    uint64_t data_length;
};

#define DESCRIPTORS_MAX 65536
#define PARTS_MAX 1026

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char tracked[DESCRIPTORS_MAX];
static char root[PATH_MAX];
static size_t root_length;
static int journal = -1;
static struct {
    int64_t countdown; /* Syncs up to and including the one that fails; 0: none does. */
    int64_t sync_us;
    char end[48];
} *control;
static uint64_t syncs;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) {
        fprintf(stderr, "lossy_disk: no %s\n", name);
        abort();
    }
    return found;
}

static void refuse(const char *what)
{
    fprintf(stderr, "lossy_disk: %s is not recorded\n", what);
    abort();
}

__attribute__((constructor)) static void start(void)
{
    const char *directory = getenv("LOSSY_DISK_ROOT"), *path = getenv("LOSSY_DISK_JOURNAL");
    const char *control_path = getenv("LOSSY_DISK_CONTROL");
    if (!directory || !path || !control_path)
        return;
    int descriptor = REAL(open64)(control_path, O_RDWR | O_CLOEXEC);
    control = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    REAL(close)(descriptor);
    journal = REAL(open64)(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (journal < 0 || descriptor < 0 || control == MAP_FAILED)
        refuse("a missing control file or journal");
    snprintf(root, sizeof root, "%s", directory);
    root_length = strlen(root);
}

/* Append a record; the caller holds the lock. The data are the first data_length bytes of the parts. */
static void note(enum kind kind, uint64_t inode, uint64_t offset, const char *path, const struct iovec *parts, int count,
                 uint64_t data_length)
{
    struct record record = {kind, path ? strlen(path) : 0, inode, offset, data_length};
    struct iovec all[PARTS_MAX];
    int used = 0;
    uint64_t left = data_length;
    size_t expected = sizeof record + record.path_length + data_length;
    int saved = errno;
    all[used++] = (struct iovec){&record, sizeof record};
    if (path)
        all[used++] = (struct iovec){(void *)path, record.path_length};
    if (count > PARTS_MAX - 2)
        refuse("a write of so many parts");
    for (int index = 0; index < count && left; index++) {
        size_t length = parts[index].iov_len < left ? parts[index].iov_len : left;
        all[used++] = (struct iovec){parts[index].iov_base, length};
        left -= length;
    }
    /* 1,024 parts are what one call takes: larger groups need two, and only the lock keeps those together. */
    for (int done = 0; done < used;) {
        int some = used - done > 1024 ? 1024 : used - done;
        size_t size = 0;
        for (int index = done; index < done + some; index++)
            size += all[index].iov_len;
        if (REAL(writev)(journal, all + done, some) != (ssize_t)size)
            refuse("what does not fit in the journal's disk");
        expected -= size;
        done += some;
    }
    if (expected)
        refuse("a record of the wrong length");
    errno = saved;
}

static int is_below(const char *path)
{
    return journal >= 0 && strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static int is_tracked(int descriptor)
{
    return descriptor >= 0 && descriptor < DESCRIPTORS_MAX && tracked[descriptor];
}

static uint64_t inode_of(int descriptor)
{
    struct stat64 found;
    return fstat64(descriptor, &found) == 0 ? found.st_ino : 0;
}

/* Write the path that a descriptor was opened at into "into", empty if there is none; return its length. */
static size_t path_of(int descriptor, char *into)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, into, PATH_MAX - 1);
    into[length < 0 ? 0 : length] = 0;
    return length < 0 ? 0 : length;
}

/* Write the absolute form of a path into "into"; empty if it has none. */
static void resolve(int directory, const char *path, char *into)
{
    char base[PATH_MAX] = "";
    into[0] = 0;
    if (!path)
        return;
    if (path[0] == '/') {
        snprintf(into, PATH_MAX, "%s", path);
        return;
    }
    if (directory == AT_FDCWD) {
        if (!getcwd(base, sizeof base))
            return;
    } else {
        if (!path_of(directory, base))
            return;
    }
    if (snprintf(into, PATH_MAX, "%s/%s", base, path) >= PATH_MAX)
        into[0] = 0;
}

static int open_at(int directory, const char *path, int flags, mode_t mode)
{
    char full[PATH_MAX];
    struct stat64 found;
    if (journal < 0)
        return REAL(openat64)(directory, path, flags, mode);
    resolve(directory, path, full);
    if (!is_below(full))
        return REAL(openat64)(directory, path, flags, mode);
    if ((flags & O_TMPFILE) == O_TMPFILE)
        refuse("O_TMPFILE");
    pthread_mutex_lock(&lock);
    int existed = fstatat64(AT_FDCWD, full, &found, 0) == 0;
    int descriptor = REAL(openat64)(directory, path, flags, mode);
    if (descriptor >= DESCRIPTORS_MAX)
        refuse("a descriptor of so high a number");
    if (descriptor >= 0) {
        tracked[descriptor] = 1;
        if (!existed)
            note(CREATE, inode_of(descriptor), 0, full, NULL, 0, 0);
        else if (flags & O_TRUNC)
            note(TRUNCATE, inode_of(descriptor), 0, NULL, NULL, 0, 0);
    }
    pthread_mutex_unlock(&lock);
    return descriptor;
}

#define MODE_OF(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, flags); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

int open(const char *path, int flags, ...) { MODE_OF(flags) return open_at(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return open_at(AT_FDCWD, path, flags, mode); }
int openat(int directory, const char *path, int flags, ...) { MODE_OF(flags) return open_at(directory, path, flags, mode); }
int openat64(int directory, const char *path, int flags, ...) { MODE_OF(flags) return open_at(directory, path, flags, mode); }
int __open_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return open_at(AT_FDCWD, path, flags, 0); }
int __openat_2(int directory, const char *path, int flags) { return open_at(directory, path, flags, 0); }
int __openat64_2(int directory, const char *path, int flags) { return open_at(directory, path, flags, 0); }
int creat(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

int close(int descriptor)
{
    if (is_tracked(descriptor))
        tracked[descriptor] = 0;
    return REAL(close)(descriptor);
}

/* Note "done" bytes that were just written at the descriptor's own offset. */
static void note_write(int descriptor, const struct iovec *parts, int count, ssize_t done, off64_t offset)
{
    if (done > 0) {
        uint64_t at = offset >= 0 ? offset : lseek64(descriptor, 0, SEEK_CUR) - done;
        note(WRITE, inode_of(descriptor), at, NULL, parts, count, done);
    }
}

#define RECORDED(descriptor, call, parts, count, offset) \
    if (!is_tracked(descriptor)) \
        return call; \
    pthread_mutex_lock(&lock); \
    ssize_t done = call; \
    note_write(descriptor, parts, count, done, offset); \
    pthread_mutex_unlock(&lock); \
    return done;

ssize_t write(int descriptor, const void *data, size_t length)
{
    struct iovec part = {(void *)data, length};
    RECORDED(descriptor, REAL(write)(descriptor, data, length), &part, 1, -1)
}

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    RECORDED(descriptor, REAL(writev)(descriptor, parts, count), parts, count, -1)
}

ssize_t pwrite64(int descriptor, const void *data, size_t length, off64_t offset)
{
    struct iovec part = {(void *)data, length};
    RECORDED(descriptor, REAL(pwrite64)(descriptor, data, length, offset), &part, 1, offset)
}

ssize_t pwrite(int descriptor, const void *data, size_t length, off_t offset)
{
    return pwrite64(descriptor, data, length, offset);
}

ssize_t pwritev64(int descriptor, const struct iovec *parts, int count, off64_t offset)
{
    RECORDED(descriptor, REAL(pwritev64)(descriptor, parts, count, offset), parts, count, offset)
}

ssize_t pwritev(int descriptor, const struct iovec *parts, int count, off_t offset)
{
    return pwritev64(descriptor, parts, count, offset);
}

static int change_length(int descriptor, off64_t length, int result)
{
    if (result == 0)
        note(TRUNCATE, inode_of(descriptor), length, NULL, NULL, 0, 0);
    return result;
}

int ftruncate64(int descriptor, off64_t length)
{
    if (!is_tracked(descriptor))
        return REAL(ftruncate64)(descriptor, length);
    pthread_mutex_lock(&lock);
    int result = change_length(descriptor, length, REAL(ftruncate64)(descriptor, length));
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int descriptor, off_t length) { return ftruncate64(descriptor, length); }

int posix_fallocate64(int descriptor, off64_t offset, off64_t length)
{
    struct stat64 found;
    if (!is_tracked(descriptor))
        return REAL(posix_fallocate64)(descriptor, offset, length);
    pthread_mutex_lock(&lock);
    int result = REAL(posix_fallocate64)(descriptor, offset, length);
    if (result == 0 && fstat64(descriptor, &found) == 0)
        change_length(descriptor, found.st_size, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int posix_fallocate(int descriptor, off_t offset, off_t length) { return posix_fallocate64(descriptor, offset, length); }

int fallocate64(int descriptor, int mode, off64_t offset, off64_t length)
{
    if (is_tracked(descriptor) && mode != FALLOC_FL_KEEP_SIZE)
        refuse("fallocate that changes the length or the content");
    return REAL(fallocate64)(descriptor, mode, offset, length);
}

int fallocate(int descriptor, int mode, off_t offset, off_t length) { return fallocate64(descriptor, mode, offset, length); }

static int rename_at(int from_directory, const char *from, int to_directory, const char *to)
{
    char source[PATH_MAX], target[PATH_MAX];
    resolve(from_directory, from, source);
    resolve(to_directory, to, target);
    if (!is_below(source) && !is_below(target))
        return REAL(renameat)(from_directory, from, to_directory, to);
    if (!is_below(source) || !is_below(target))
        refuse("renaming across the directory's edge");
    pthread_mutex_lock(&lock);
    int result = REAL(renameat)(from_directory, from, to_directory, to);
    struct iovec part = {target, strlen(target)};
    if (result == 0)
        note(RENAME, 0, 0, source, &part, 1, part.iov_len);
    pthread_mutex_unlock(&lock);
    return result;
}

int rename(const char *from, const char *to) { return rename_at(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
    return rename_at(from_directory, from, to_directory, to);
}

static int remove_at(int directory, const char *path, int flags)
{
    char full[PATH_MAX];
    resolve(directory, path, full);
    if (!is_below(full))
        return REAL(unlinkat)(directory, path, flags);
    pthread_mutex_lock(&lock);
    int result = REAL(unlinkat)(directory, path, flags);
    if (result == 0)
        note(flags & AT_REMOVEDIR ? RMDIR : UNLINK, 0, 0, full, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int unlink(const char *path) { return remove_at(AT_FDCWD, path, 0); }
int unlinkat(int directory, const char *path, int flags) { return remove_at(directory, path, flags); }
int rmdir(const char *path) { return remove_at(AT_FDCWD, path, AT_REMOVEDIR); }

int mkdirat(int directory, const char *path, mode_t mode)
{
    char full[PATH_MAX];
    struct stat64 found;
    resolve(directory, path, full);
    if (!is_below(full))
        return REAL(mkdirat)(directory, path, mode);
    pthread_mutex_lock(&lock);
    int result = REAL(mkdirat)(directory, path, mode);
    if (result == 0 && stat64(full, &found) == 0)
        note(MKDIR, found.st_ino, 0, full, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

static int fails(const char *path)
{
    size_t length = strlen(path), end = strnlen(control->end, sizeof control->end);
    if (length < end || memcmp(path + length - end, control->end, end) != 0)
        return 0;
    return control->countdown > 0 && --control->countdown == 0;
}

static int sync_file(int descriptor, int (*call)(int))
{
    char path[PATH_MAX];
    if (!is_tracked(descriptor))
        return call(descriptor);
    uint64_t inode = inode_of(descriptor);
    path_of(descriptor, path);
    pthread_mutex_lock(&lock);
    uint64_t number = ((uint64_t)getpid() << 32) + ++syncs;
    int failed = fails(path);
    note(SYNC_BEGIN, inode, number, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    usleep(control->sync_us);
    pthread_mutex_lock(&lock);
    note(failed ? SYNC_FAILED : SYNC_END, inode, number, NULL, NULL, 0, 0);
    pthread_mutex_unlock(&lock);
    if (failed)
        errno = EIO;
    return -failed;
}

int fsync(int descriptor) { return sync_file(descriptor, REAL(fsync)); }
int fdatasync(int descriptor) { return sync_file(descriptor, REAL(fdatasync)); }

void *mmap64(void *address, size_t length, int protection, int flags, int descriptor, off64_t offset)
{
    /* SQLite's shared memory is made anew after a crash of everybody who has it open. */
    if (is_tracked(descriptor) && (protection & PROT_WRITE) && (flags & MAP_SHARED)) {
        char path[PATH_MAX];
        size_t size = path_of(descriptor, path);
        if (size < 4 || memcmp(path + size - 4, "-shm", 4) != 0)
            refuse("writing through mmap");
    }
    return REAL(mmap64)(address, length, protection, flags, descriptor, offset);
}

ssize_t sendfile64(int target, int source, off64_t *offset, size_t count)
{
    ssize_t (*call)(int, int, off64_t *, size_t) = real("sendfile64");
    if (is_tracked(target))
        refuse("sendfile");
    return call(target, source, offset, count);
}

ssize_t copy_file_range(int source, off64_t *from, int target, off64_t *to, size_t count, unsigned int flags)
{
    if (is_tracked(target))
        refuse("copy_file_range");
    return REAL(copy_file_range)(source, from, target, to, count, flags);
}

int truncate64(const char *path, off64_t length)
{
    char full[PATH_MAX];
    resolve(AT_FDCWD, path, full);
    if (is_below(full))
        refuse("truncate by path");
    return REAL(truncate64)(path, length);
}

int linkat(int from_directory, const char *from, int to_directory, const char *to, int flags)
{
    char full[PATH_MAX];
    resolve(to_directory, to, full);
    if (is_below(full))
        refuse("a second link");
    return REAL(linkat)(from_directory, from, to_directory, to, flags);
}

int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }
