package bwrap_test

import "fmt"

// capScenes are combinations of capabilities, users and namespaces.
func capScenes() []scene {
	var list []scene
	for name, words := range map[string]string{
		"add-all": "--cap-add ALL", "add-all-lower": "--cap-add all", "drop-all": "--cap-drop ALL", "drop-all-lower": "--cap-drop all", "add-one": "--cap-add CAP_NET_ADMIN",
		"add-two": "--cap-add cap_net_admin --cap-add cap_chown", "drop-one": "--cap-drop CAP_CHOWN", "all-but-one": "--cap-add ALL --cap-drop cap_sys_admin",
		"none-but-one": "--cap-drop ALL --cap-add cap_sys_chroot", "order": "--cap-add cap_chown --cap-drop ALL", "twice": "--cap-add cap_chown --cap-add cap_chown",
		"drop-high": "--cap-drop cap_checkpoint_restore", "add-setfcap": "--cap-drop ALL --cap-add CAP_SETFCAP", "drop-setpcap": "--cap-drop cap_setpcap",
		"mixed-case": "--cap-add Cap_Net_Raw",
	} {
		for i, space := range []string{"", "--unshare-user", "--unshare-user --uid 0 --gid 0", "--unshare-user --uid 1000", "--unshare-pid --dev /dev", "--unshare-all --die-with-parent"} {
			list = append(list, c(fmt.Sprintf("%s-%d", name, i), "{BASE} "+words+" "+space+" {FP}"))
		}
	}
	return append(list,
		c("umount", "--ro-bind / / --cap-add ALL --unshare-user --uid 0 --dev /dev umount /dev"),
		c("mount", "--ro-bind / / --cap-add ALL --unshare-user --uid 0 mount -t tmpfs x /tmp"),
		c("mount-dev", "--ro-bind / / --cap-add ALL --unshare-user --uid 0 --dev /dev mount -t tmpfs x /tmp"),
		c("remount-rw", "--ro-bind / / --cap-add ALL --unshare-user --uid 0 mount -o remount,bind,rw /"),
		c("hostname-inside", "--ro-bind / / --unshare-uts --cap-add ALL hostname other"),
		c("proc-1-exe", "--bind / / --unshare-pid --proc /proc sh -c ': >>/proc/1/exe'"),
		c("proc-init", "--ro-bind / / --unshare-pid --proc /proc --cap-add ALL sh -c '"+initWaits+"grep -E \"Cap|Uid|NoNew\" /proc/1/status'"),
	)
}
