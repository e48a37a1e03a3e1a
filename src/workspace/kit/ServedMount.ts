/** How a file system that a process of ours serves is mounted. Rules: W2, W17, W23; 04 "Projections" 2. */

/**
 * What the kernel wants to know of a file system that a process serves through the descriptor 3 (mount.fuse(8)). The kernel itself checks permissions, as for
 * any directory.
 */
export const servedOptions = "fd=3,rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other,ro,nosuid,nodev"
export const servedType = "fuse.coppice"
