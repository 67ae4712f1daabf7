#!/bin/bash
# Stands in for EFA's installer: the same words on the command line, the same places, and no EFA in them.
# Usage: efa_installer.sh [-y] [--skip-kmod] [--skip-limit-conf] [--no-verify] [--disable-ngc] [--mpi=openmpi4]
set -euo pipefail

given=" $* "
for flag in -y --skip-kmod --skip-limit-conf --no-verify; do
    if [[ $given != *" $flag "* ]]; then
        echo "stand-in: a container needs $flag" >&2
        exit 1
    fi
done
if [[ -e /opt/nvidia/nvidia_entrypoint.sh && $given != *" --disable-ngc "* ]]; then
    rm -f DEBS/*/*/libnccl-ofi_*.deb
fi
apt-get install -y --no-install-recommends pciutils libnl-3-200 libnl-route-3-200
dpkg --install DEBS/DEBIAN12/x86_64/rdma-core/*.deb DEBS/DEBIAN12/x86_64/*.deb

names=$(dpkg-query --show --showformat '${Package}_${Version}_${Architecture} ' \
    efa-config efa-profile libfabric1-aws libfabric-aws-bin openmpi40-aws libnccl-ofi rdma-core ibverbs-providers)
cat > /opt/amazon/efa_installed_packages << EOF
# EFA installer version: VERSION
# Debug packages installed: no
# Packages installed:
$names
EOF
