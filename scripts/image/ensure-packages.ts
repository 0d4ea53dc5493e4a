// Sees to it that the tools exist which build the image and its base.
import { ensureDebianPackages } from '../../test/support/debian-packages.ts';

await ensureDebianPackages([
  { name: 'buildah', probe: 'buildah' },
  { name: 'debootstrap', probe: 'debootstrap' },
]);
