# The life of an installed router under systemd, by the commands of docs/packages.md.
. /case/steps.sh

worker() { pgrep -u wirespeed -x wirespeed; }
broken() {
    echo 'nonsense = 1' >> /etc/wirespeed/router.toml
    cp /etc/wirespeed/router.toml /root/broken
}
old_program() { readlink "/proc/$1/exe" | grep -q deleted; }

step installed, and nothing is started
offer 1
page install
[ "$(version)" = 0.1.0-1 ]
! systemctl is-active wirespeed || fail "it was started"
! systemctl is-enabled wirespeed || fail "it was enabled"
wirespeed up --check /etc/wirespeed/router.toml

step configured by the page and started
page try
page configure
soon crosses
[ "$(systemctl is-enabled wirespeed)" = enabled ]
worker || fail "no process of the user wirespeed"
page look
wirespeed show ports | grep -q lan

step reloaded
first=$(main)
page change
soon sh -c 'wirespeed ip route | grep -q 203.0.113.0/24'
crosses
[ "$(main)" = "$first" ]

step a file with a mistake: neither a reload nor a restart by the page does harm
cp /etc/wirespeed/router.toml /root/kept
broken
! systemctl reload wirespeed || fail "the reload reports success"
soon sh -c 'journalctl -u wirespeed | grep -q nonsense'
! page restart || fail "restarted with a mistake"
crosses
[ "$(main)" = "$first" ]
cp /root/kept /etc/wirespeed/router.toml

step upgraded under traffic: the router goes on, the configuration stays
traffic
offer 2
page upgrade | tee /root/said
grep -q 'goes on as it was started' /root/said
[ "$(version)" = 0.1.0-2 ]
[ "$(main)" = "$first" ]
old_program "$first"
cmp /root/kept /etc/wirespeed/router.toml
systemctl reload wirespeed
crosses
quiet

step needrestart lists the router and leaves it alone
needrestart -b -r a > /root/listed 2>&1 < /dev/null || true
cat /root/listed
grep -q wirespeed /root/listed || fail "not listed"
[ "$(main)" = "$first" ]

step restarted: the new program runs
page restart
soon crosses
! old_program "$(main)" || fail "the old program runs"

step the file of the package changed as well: the operator\'s stays, and its mistake is shown
second=$(main)
dpkg-deb -R /case/2.deb /root/three
sed -i 's/^Version:.*/Version: 0.1.0-3/' /root/three/DEBIAN/control
echo '# A line of the next version.' >> /root/three/etc/wirespeed/router.toml
dpkg-deb -Znone -b /root/three /root/three.deb
broken
dpkg --force-confold -i /root/three.deb > /root/said 2>&1 || { cat /root/said; fail "no upgrade"; }
cat /root/said
grep -q 'do not restart it yet' /root/said
grep -q nonsense /root/said
rm -r /root/three
cmp /root/broken /etc/wirespeed/router.toml
grep -q 'next version' /etc/wirespeed/router.toml.dpkg-dist
crosses
[ "$(main)" = "$second" ]
cp /root/kept /etc/wirespeed/router.toml

step a gateway for machines: started, its socket is for its user, stopped
echo 'OPTIONS=--vm qemu:/run/wirespeed-gateway/web/vm.sock' > /etc/wirespeed/gateway/web.conf
systemctl enable --now wirespeed-gateway@web
soon test -S /run/wirespeed-gateway/web/vm.sock
systemctl show -p User,DynamicUser,NRestarts wirespeed-gateway@web
[ "$(systemctl show -p NRestarts --value wirespeed-gateway@web)" = 0 ]
[ "$(stat -c %U /proc/"$(systemctl show -p MainPID --value wirespeed-gateway@web)")" != root ]

step removed: all stops, the configuration stays
page remove
soon sh -c '! pgrep -x wirespeed'
[ ! -e /usr/bin/wirespeed ]
cmp /root/kept /etc/wirespeed/router.toml

step installed again: the configuration is as it was
rm -f ./*.deb
mv /root/three.deb wirespeed_0.1.0-3_amd64.deb
page install
cmp /root/kept /etc/wirespeed/router.toml
systemctl restart wirespeed
soon crosses

step purged: the user and all files are gone
rm /etc/wirespeed/gateway/web.conf
page purge
soon sh -c '! pgrep -x wirespeed'
gone
[ -z "$(systemctl list-unit-files --no-legend 'wirespeed*')" ]

step installed, enabled and purged, without an upgrade between
page install
systemctl enable wirespeed
page purge
gone
echo done
