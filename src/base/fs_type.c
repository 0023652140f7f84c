/* SPDX-License-Identifier: BSD-3-Clause */
/* CephFS revokes the caches of all writers of a file with several writers. NFS, SMB and FUSE
 * guarantee nothing about two clients that write one file. Attribute caches last up to 60 s on NFS
 * and SMB by default, 1 s (GlusterFS) to 20 s (sshfs) on FUSE, and 1 s on BeeGFS. */
#include "base/fs_type.h"

#include <stddef.h>
#include <sys/vfs.h>

static const struct crn_fs_type known[] = {
    {.magic = 0xEF53, .name = "ext4", .is_disk = 1, .is_shared = 1},
    {.magic = 0x58465342, .name = "XFS", .is_disk = 1, .is_shared = 1},
    {.magic = 0x9123683E, .name = "Btrfs", .is_shared = 1},
    {.magic = 0x2FC12FC1, .name = "ZFS", .is_shared = 1},
    {.magic = 0x01021994, .name = "tmpfs", .is_memory = 1, .is_shared = 1},
    {.magic = 0x794c7630, .name = "overlay", .is_shared = 1},
    {.magic = CRN_FS_LUSTRE, .name = "Lustre", .is_shared = 1},
    {.magic = 0x47504653, .name = "GPFS", .is_shared = 1},
    {.magic = 0x19830326, .name = "BeeGFS", .is_shared = 1, .late_s = 2},
    {.magic = 0x00c36400, .name = "CephFS"},
    {.magic = 0x6969, .name = "NFS", .late_s = 60},
    {.magic = 0xFE534D42, .name = "SMB", .late_s = 60},
    {.magic = 0x65735546, .name = "FUSE", .late_s = 20},
};

const struct crn_fs_type *crn_fs_type_find(uint32_t magic)
{
    static const struct crn_fs_type unknown = {.name = "unknown file system", .late_s = 60};
    size_t i;

    for (i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i].magic == magic)
            return &known[i];
    return &unknown;
}

const struct crn_fs_type *crn_fs_type_of(int fd)
{
    struct statfs st;

    return crn_fs_type_find(fstatfs(fd, &st) == 0 ? (uint32_t)st.f_type : 0);
}
