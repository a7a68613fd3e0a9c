# The life of an RPM under systemd. Its dependencies have Fedora's names: --nodeps.
. /case/steps.sh

step installed, and nothing is started
rpm --install --nodeps /case/1.rpm
wirespeed --version
! systemctl is-active wirespeed || fail "it was started"
! systemctl is-enabled wirespeed || fail "it was enabled"
getent passwd wirespeed

step configured by the page and started
page try
page configure
soon crosses
pgrep -u wirespeed -x wirespeed || fail "no process of the user wirespeed"
first=$(main)
cp /etc/wirespeed/router.toml /root/kept

step upgraded under traffic: the router goes on, the configuration stays
traffic
rpm --upgrade --nodeps /case/2.rpm > /root/said 2>&1 || { cat /root/said; fail "not upgraded"; }
cat /root/said
grep -q 'goes on as it was started' /root/said
[ "$(rpm -q --qf '%{RELEASE}' wirespeed)" = 2 ]
[ "$(main)" = "$first" ]
cmp /root/kept /etc/wirespeed/router.toml
crosses
quiet
page restart
soon crosses

step a gateway for machines is enabled
echo 'OPTIONS=--vm qemu:/run/wirespeed-gateway/web/vm.sock' > /etc/wirespeed/gateway/web.conf
systemctl enable --now wirespeed-gateway@web
soon test -S /run/wirespeed-gateway/web/vm.sock

step removed: all stops, and nothing is left but what the operator wrote, and the user
rpm --erase wirespeed
soon sh -c '! pgrep -x wirespeed'
cmp /root/kept /etc/wirespeed/router.toml.rpmsave
rm /etc/wirespeed/router.toml.rpmsave /etc/wirespeed/gateway/web.conf
rmdir -p --ignore-fail-on-non-empty /etc/wirespeed/gateway
userdel wirespeed
gone
echo done
