#!/usr/bin/python3
"""A file system that ignores case and preserves it, as macOS and Windows have it: shows a directory DIR at MOUNT, by FUSE.

usage: case_insensitive.py DIR MOUNT
"""
import errno
import os
import sys

import fusepy as fuse

# Looks paths up again for every call: another name of the same file may have been created meanwhile.
OPTIONS = dict(foreground=True, nothreads=True, default_permissions=True, allow_other=True, attr_timeout=0, entry_timeout=0,
               negative_timeout=0, use_ino=True, big_writes=True)


class IgnoresCase(fuse.Operations):
    def __init__(self, root):
        self.root = root

    def real(self, path):
        """The path below the root, with each part in the case that it has on the disk."""
        at = self.root
        for part in path.strip('/').split('/') if path != '/' else []:
            if not os.path.lexists(os.path.join(at, part)):
                try:
                    part = next((name for name in os.listdir(at) if name.casefold() == part.casefold()), part)
                except OSError:
                    pass
            at = os.path.join(at, part)
        return at

    def __call__(self, op, path, *args):
        try:
            return super().__call__(op, path if op in ('symlink', 'link', 'rename') else self.real(path), *args)
        except OSError as error:
            raise fuse.FuseOSError(error.errno or errno.EIO)

    def getattr(self, path, fh=None):
        found = os.fstat(fh) if fh is not None else os.lstat(path)
        keys = ('st_ino', 'st_mode', 'st_nlink', 'st_uid', 'st_gid', 'st_size', 'st_blocks', 'st_atime', 'st_mtime', 'st_ctime')
        return {key: getattr(found, key) for key in keys}

    def statfs(self, path):
        found = os.statvfs(path)
        keys = ('f_bavail', 'f_bfree', 'f_blocks', 'f_bsize', 'f_favail', 'f_ffree', 'f_files', 'f_flag', 'f_frsize', 'f_namemax')
        return {key: getattr(found, key) for key in keys}

    def access(self, path, mode):
        if not os.access(path, mode):
            raise OSError(errno.EACCES, '')

    def readdir(self, path, fh):
        return ['.', '..'] + os.listdir(path)

    def create(self, path, mode, fi=None):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)

    def open(self, path, flags):
        return os.open(path, flags & ~os.O_APPEND)

    def read(self, path, size, offset, fh):
        return os.pread(fh, size, offset)

    def write(self, path, data, offset, fh):
        return os.pwrite(fh, data, offset)

    def truncate(self, path, length, fh=None):
        os.truncate(path if fh is None else fh, length)

    def fsync(self, path, datasync, fh):
        os.fsync(fh)

    def release(self, path, fh):
        os.close(fh)

    def rename(self, old, new):
        # To rename a file to another case of its own name changes that name.
        old, wanted = self.real(old), self.real(new)
        if old == wanted:
            wanted = os.path.join(os.path.dirname(wanted), os.path.basename(new))
        os.rename(old, wanted)

    def symlink(self, link, target):
        os.symlink(target, self.real(link))

    def link(self, new, old):
        os.link(self.real(old), self.real(new))

    def utimens(self, path, times=None):
        os.utime(path, times, follow_symlinks=False)

    def chown(self, path, uid, gid):
        os.lchown(path, uid, gid)

    def mknod(self, path, mode, dev):
        os.mknod(path, mode, dev)

    def mkdir(self, path, mode):
        os.mkdir(path, mode)

    chmod = staticmethod(os.chmod)
    unlink = staticmethod(os.unlink)
    rmdir = staticmethod(os.rmdir)
    readlink = staticmethod(os.readlink)


if __name__ == '__main__':
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    fuse.FUSE(IgnoresCase(os.path.realpath(sys.argv[1])), sys.argv[2], **OPTIONS)
