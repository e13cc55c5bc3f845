# Run by namespaces.py in fresh namespaces: makes them look like a machine of its own, says "ready",
# and keeps them until it is killed.
# Usage: holder.sh NAME DIRECTORY HOME
set -eu
name=$1 own=$2 home=$3

echo "$name" >/proc/sys/kernel/hostname
ip link set lo up
# A link that was down comes back with its addresses.
[ ! -d /proc/sys/net/ipv6 ] || echo 1 >/proc/sys/net/ipv6/conf/all/keep_addr_on_down

# What this machine changes in /etc and in root's home stays here.
mount -t tmpfs -o mode=755 "$name" "$own"
for folder in /etc "$home"; do
    layer=$own$folder
    mkdir -p "$layer" "$layer.work"
    chmod --reference="$folder" "$layer"
    mount -t overlay -o "lowerdir=$folder,upperdir=$layer,workdir=$layer.work" overlay "$folder"
done
# A shell there starts as on a machine just installed, whatever this machine's user has arranged.
rm -f "$home/.bashrc" "$home/.bash_profile" "$home/.bash_login" "$home/.profile"
mount -t tmpfs -o mode=755 "$name" /run
mount -t tmpfs -o mode=1777 "$name" /dev/shm

# /sys shows the interfaces of the namespace it was mounted in; the control groups are kept.
mkdir "$own/cgroup"
mount --rbind /sys/fs/cgroup "$own/cgroup"
mount -t sysfs sysfs /sys
mount --rbind "$own/cgroup" /sys/fs/cgroup

# Two machines never have the same of these.
cat /proc/sys/kernel/random/uuid >"$own/boot_id"
mount --bind "$own/boot_id" /proc/sys/kernel/random/boot_id
tr -d - </proc/sys/kernel/random/uuid >"$own/machine-id"
for file in /etc/machine-id /etc/hostname /etc/hosts /etc/nsswitch.conf; do
    rm -f "$file"
done
cp "$own/machine-id" /etc/machine-id
echo "$name" >/etc/hostname
# Names come from /etc/hosts alone: an unknown one is unknown at once.
printf 'passwd: files\ngroup: files\nshadow: files\nhosts: files\n' >/etc/nsswitch.conf
: >/etc/hosts

echo ready
exec sleep infinity >/dev/null 2>&1
