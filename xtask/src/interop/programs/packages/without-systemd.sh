# A router on a machine without systemd, by the commands of docs/packages.md.
. /case/steps.sh

start() { sh /case/without > /root/router.log 2>&1 & }
running() { pgrep -u wirespeed -x wirespeed; }

step systemd is removed
printf '#!/bin/sh\nexit 101\n' > /usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
dpkg --purge --force-depends --force-remove-protected systemd-sysv systemd libpam-systemd \
    dbus-user-session needrestart 2>&1 | tail -3
! command -v systemctl || fail "systemctl is there"
[ ! -d /run/systemd ] || rmdir /run/systemd

step installed
offer 1
dpkg -i ./*.deb
wirespeed --version
getent passwd wirespeed

step configured by the page and started
page try
sed '/^systemctl/d' /case/configure > /root/configure
sh /root/configure
start
soon crosses
running || fail "no process of the user wirespeed"
cp /etc/wirespeed/router.toml /root/kept

step reloaded
sed '/^systemctl/d' /case/change > /root/change
sh /root/change
cp /etc/wirespeed/router.toml /root/kept
pkill -HUP -o -x wirespeed
soon sh -c 'wirespeed ip route | grep -q 203.0.113.0/24'

step upgraded under traffic: the router goes on, the configuration stays
traffic
offer 2
dpkg -i ./*.deb
cmp /root/kept /etc/wirespeed/router.toml
crosses
quiet

step purged while it runs: the router goes on, and dpkg says what to do
dpkg --purge wirespeed > /root/said 2>&1 || { cat /root/said; fail "not purged"; }
cat /root/said
grep -q 'userdel wirespeed' /root/said
crosses
pkill -TERM -o -x wirespeed
soon sh -c '! pgrep -x wirespeed'
userdel wirespeed
gone

step installed again, and purged
dpkg -i ./*.deb
dpkg --purge wirespeed
gone
echo done
